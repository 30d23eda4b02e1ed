# How this tree builds: warnings, sanitizers, ccache, the linker, third-party libraries.
find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${MUSTER_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MUSTER_CCACHE})
endif()

# lld links a program in a tenth of GNU ld's time.
find_program(MUSTER_LLD ld.lld)
if(MUSTER_LLD)
  add_link_options(-fuse-ld=lld)
endif()

find_package(Threads REQUIRED)
if(MUSTER_LAUNCHER)
  find_package(PkgConfig REQUIRED)
  find_package(GTest REQUIRED)
endif()
if(MUSTER_DIST)
  add_library(OpenSSL::Crypto STATIC IMPORTED)
  set_target_properties(OpenSSL::Crypto PROPERTIES IMPORTED_LOCATION ${MUSTER_DIST}/lib/libcrypto.a INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS};Threads::Threads")
  target_include_directories(OpenSSL::Crypto INTERFACE ${MUSTER_DIST}/include)
else()
  find_package(OpenSSL REQUIRED)
endif()

# Third-party libraries of the rooms. An executable with the property MUSTER_STATIC gets their archives (as one linker
# argument, so that order does not matter). So does one with MUSTER_ARCHIVES, which shares only the C library with the
# machine (muster_archives() below). Every other one gets the shared libraries. What has MUSTER_OLD_GLIBC
# (cmake/Portable.cmake) gets libcrypto's archive.
set(MUSTER_STATIC_LIBRARIES ssl crypto z)
add_library(muster_openssl INTERFACE)
add_library(muster_crypto INTERFACE)  # libcrypto alone: for libmuster, which is linked into users' programs
add_library(muster_grpc INTERFACE)
# pkg-config needs 11 seconds for gRPC, since it reads Abseil's 60 files again and again.
set(MUSTER_GRPC_ARCHIVES "")
if(MUSTER_WITH_GRPC)
  foreach(library grpc++ grpc gpr protobuf)
    find_library(MUSTER_LIBRARY_${library} ${library} REQUIRED)
  endforeach()
  get_filename_component(folder ${MUSTER_LIBRARY_grpc} DIRECTORY)
  file(GLOB abseil RELATIVE ${folder} ${folder}/libabsl_*.a)
  list(TRANSFORM abseil REPLACE "^lib(.*)\\.a$" "\\1")
  set(MUSTER_GRPC_ARCHIVES grpc++ grpc gpr upb address_sorting re2 cares protobuf ${abseil})
  list(PREPEND MUSTER_STATIC_LIBRARIES hwloc grpc++_reflection ${MUSTER_GRPC_ARCHIVES})
endif()
list(TRANSFORM MUSTER_STATIC_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE static_arguments)
list(JOIN static_arguments "," static_arguments)
set(is_static $<BOOL:$<TARGET_PROPERTY:MUSTER_STATIC>>)
set(has_archives $<BOOL:$<TARGET_PROPERTY:MUSTER_ARCHIVES>>)
set(is_shared $<NOT:$<OR:${is_static},${has_archives}>>)
set(static_group "-Wl,--start-group,${static_arguments},--end-group")
set(archive_group "-Wl,-Bstatic,--start-group,${static_arguments},--end-group,-Bdynamic")
set(any_archives "$<${is_static}:${static_group}>" "$<${has_archives}:${archive_group}>")
target_link_libraries(muster_openssl INTERFACE ${any_archives} "$<${is_shared}:OpenSSL::SSL;OpenSSL::Crypto>")
set(has_old_glibc $<BOOL:$<TARGET_PROPERTY:MUSTER_OLD_GLIBC>>)
target_link_libraries(muster_crypto INTERFACE ${any_archives} "$<${has_old_glibc}:-Wl,-Bstatic,-lcrypto,-Bdynamic>"
                      "$<$<NOT:$<OR:${is_static},${has_archives},${has_old_glibc}>>:OpenSSL::Crypto>")
if(MUSTER_WITH_GRPC)
  target_link_libraries(muster_grpc INTERFACE ${any_archives} "$<${is_shared}:grpc++;grpc;gpr;protobuf;absl_synchronization>")
  add_library(muster_grpc_reflection INTERFACE)
  target_link_libraries(muster_grpc_reflection INTERFACE muster_grpc "$<${is_shared}:grpc++_reflection>")
endif()

# Unwinding of other processes. elfutils' archives need each other and three compressors.
add_library(muster_dw INTERFACE)
target_link_libraries(muster_dw INTERFACE "$<${is_static}:-Wl,--start-group,-ldw,-lelf,-lz,-lbz2,-llzma,--end-group>"
                      "$<$<NOT:${is_static}>:-ldw>")

# The screen of `muster top`. As an archive: a program that people type should look for no more shared libraries.
add_library(muster_ncurses INTERFACE)
target_link_libraries(muster_ncurses INTERFACE "$<${is_static}:-lncursesw;-ltinfo>"
                      "$<$<NOT:${is_static}>:-Wl,-Bstatic,-lncursesw,-ltinfo,-Bdynamic>")

# What only the launcher uses. NAME: the archive, for programs that want one; TARGET: for every other one.
function(muster_third_party library name target)
  add_library(${library} INTERFACE)
  target_link_libraries(${library} INTERFACE "$<${is_static}:-l${name}>" "$<${has_archives}:-Wl,-Bstatic,-l${name},-Bdynamic>"
                        "$<${is_shared}:${target}>")
endfunction()
if(MUSTER_LAUNCHER)
  pkg_check_modules(LIBSSH REQUIRED IMPORTED_TARGET GLOBAL libssh)
  pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET GLOBAL sqlite3)
  find_package(yaml-cpp REQUIRED)
  muster_third_party(muster_libssh ssh PkgConfig::LIBSSH)
  target_link_libraries(muster_libssh INTERFACE muster_openssl)  # an archive comes before what it needs
  muster_third_party(muster_sqlite sqlite3 PkgConfig::SQLITE)
  muster_third_party(muster_yaml_cpp yaml-cpp yaml-cpp)
endif()

add_library(muster_lzma INTERFACE)
target_link_libraries(muster_lzma INTERFACE lzma)

# The agent is compressed by the program zstd, and decompressed on hosts by the library. Environments are packed and
# unpacked by the library. As an archive, for the same reason as ncurses.
if(MUSTER_LAUNCHER)
  find_program(MUSTER_ZSTD zstd REQUIRED)
  find_path(MUSTER_ZSTD_HEADERS zstd.h REQUIRED)
endif()
add_library(muster_zstd INTERFACE)
target_link_libraries(muster_zstd INTERFACE "$<${is_static}:-lzstd>"
                      "$<$<NOT:${is_static}>:-Wl,-Bstatic,-lzstd,-Bdynamic>")

# Programs that people type start in a third of the time without shared libraries. The C library stays shared, for the
# machine's own ways to look up names of hosts and users.
function(muster_archives target)
  set_target_properties(${target} PROPERTIES MUSTER_ARCHIVES ON)
  target_sources(${target} PRIVATE ${CMAKE_SOURCE_DIR}/packaging/portable/gssapi_stub.c)
  target_link_options(${target} PRIVATE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
endfunction()

add_library(muster_warnings INTERFACE)
target_compile_options(muster_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${MUSTER_WERROR}>:-Werror>
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>
                       # g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105329).
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# In a unit each file is an included one, where g++ warns of members whose types are in anonymous namespaces.
target_compile_options(muster_warnings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
if(MUSTER_SANITIZE)
  # g++ takes what a sanitizer adds for paths of the program and finds unset members on them; the release build, which
  # compiles the same files, still fails for a real one.
  target_compile_options(muster_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
endif()

# -I first, so that our own folders win; everything foreign is SYSTEM and without warnings.
add_library(muster_common INTERFACE)
target_include_directories(muster_common INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(muster_common INTERFACE BOOST_ASIO_DISABLE_CO_AWAIT BOOST_ASIO_NO_DEPRECATED
                           MUSTER_VERSION="${PROJECT_VERSION}")
target_link_libraries(muster_common INTERFACE Threads::Threads)

# So that --gc-sections leaves out what a program does not call of the files that it links.
target_compile_options(muster_common INTERFACE $<$<CONFIG:Release>:-ffunction-sections$<SEMICOLON>-fdata-sections>)

if(MUSTER_SANITIZE STREQUAL "address")
  # Without the check of vptr: it opens a pipe to see whether memory can be read, and calls each object invalid while
  # the process has no descriptor left, which several tests bring about.
  # Without that of pointers to functions: libraries that are loaded have other types for the same pointers (void*).
  target_compile_options(muster_common INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>
                         -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(muster_common INTERFACE -fsanitize=address,undefined -fno-sanitize=vptr $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function>)
elseif(MUSTER_SANITIZE STREQUAL "thread")
  target_compile_options(muster_common INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(muster_common INTERFACE -fsanitize=thread)
elseif(NOT MUSTER_SANITIZE STREQUAL "")
  message(FATAL_ERROR "MUSTER_SANITIZE is address, thread or empty, not '${MUSTER_SANITIZE}'")
endif()
if(MUSTER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "MUSTER_FUZZ needs clang: use the preset 'asan'")
  endif()
  # Not for tests (MUSTER_IS_TEST): it makes them slow, and no fuzz target looks at them.
  target_compile_options(muster_common INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MUSTER_IS_TEST>>>:-fsanitize=fuzzer-no-link>)
endif()

