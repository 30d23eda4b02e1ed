# Programs and libraries for hosts that are older than this machine (docs/adr/0061). They are linked from the same object
# files as all else, so nothing is compiled for them but a few small files of C.
#   muster_old_glibc(TARGET)   runs with glibc 2.28 and newer, and needs no library but glibc's own
# Fully static programs have the property MUSTER_STATIC instead, and no_loading.c.
set(MUSTER_GLIBC 2.28 CACHE STRING "The oldest glibc that portable programs run with")
set(portable ${CMAKE_SOURCE_DIR}/packaging/portable)
set(MUSTER_NO_LOADING ${portable}/no_loading.c)

set(MUSTER_OLD_GLIBC_FOLDER ${CMAKE_BINARY_DIR}/portable/glibc-${MUSTER_GLIBC})
set(old_libraries libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1)
set(first_glibc GLIBC_2.17)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  list(APPEND old_libraries ld-linux-x86-64.so.2)
  set(first_glibc GLIBC_2.2.5)
endif()
list(TRANSFORM old_libraries PREPEND ${MUSTER_OLD_GLIBC_FOLDER}/)
add_custom_command(OUTPUT ${old_libraries} DEPENDS ${portable}/old_libc.py VERBATIM
                   COMMAND /usr/bin/python3 -B ${portable}/old_libc.py ${MUSTER_GLIBC} ${MUSTER_OLD_GLIBC_FOLDER} ${CMAKE_C_COMPILER})
add_custom_target(muster_old_glibc_libraries DEPENDS ${old_libraries})
add_library(muster_old_glibc_shims OBJECT EXCLUDE_FROM_ALL ${portable}/old_libc_shims.c ${portable}/old_libc_wait.c)
add_library(muster_old_glibc_start OBJECT EXCLUDE_FROM_ALL ${portable}/old_libc_start.c)
target_compile_definitions(muster_old_glibc_start PRIVATE MUSTER_FIRST_GLIBC="${first_glibc}")
foreach(part shims start)
  target_compile_options(muster_old_glibc_${part} PRIVATE -O2 -Wall -Wextra)
endforeach()
execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libc_nonshared.a OUTPUT_VARIABLE nonshared OUTPUT_STRIP_TRAILING_WHITESPACE)
list(JOIN old_libraries "," old_libraries)
# lld takes archives in any order, so these need not be the last ones.
set(MUSTER_OLD_GLIBC_LINK "-Wl,-Bstatic,-lstdc++,-lgcc,-lgcc_eh,-Bdynamic" ${nonshared} "-Wl,--push-state,--no-as-needed,${old_libraries},--pop-state")

# Without lld it becomes an ordinary program of this machine.
function(muster_old_glibc target)
  if(NOT MUSTER_LLD)
    message(STATUS "no lld: ${target} needs the C++ library and the glibc of this machine")
    return()
  endif()
  add_dependencies(${target} muster_old_glibc_libraries)
  set_target_properties(${target} PROPERTIES MUSTER_OLD_GLIBC ON)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${MUSTER_OLD_GLIBC_FOLDER}/libc.so.6)
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:muster_old_glibc_shims>)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")
    target_sources(${target} PRIVATE $<TARGET_OBJECTS:muster_old_glibc_start>)
  endif()
  target_link_options(${target} PRIVATE -nodefaultlibs -Wl,--gc-sections -s)
  target_link_libraries(${target} PRIVATE ${MUSTER_OLD_GLIBC_LINK})
endfunction()
