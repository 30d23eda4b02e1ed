# How this tree builds: warnings, sanitizers, ccache, and three functions that every room uses.
#   muster_library(NAME srcs... DEPS libs...)            a static library of one room
#   muster_test(NAME srcs... LABEL unit DEPS libs...)    a GoogleTest binary registered with ctest
#   muster_fuzz(NAME srcs... CORPUS dir DEPS libs...)    a fuzz target: libFuzzer with MUSTER_FUZZ, corpus replay otherwise
find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${MUSTER_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MUSTER_CCACHE})
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
# argument, so that order does not matter), every other one the shared libraries.
set(MUSTER_STATIC_LIBRARIES ssl crypto z)
add_library(muster_openssl INTERFACE)
add_library(muster_crypto INTERFACE)  # libcrypto alone: for libmuster, which is linked into users' programs
add_library(muster_grpc INTERFACE)
if(MUSTER_WITH_GRPC)
  pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET GLOBAL grpc++ protobuf)
  list(PREPEND MUSTER_STATIC_LIBRARIES hwloc ${GRPC_STATIC_LIBRARIES})
  list(REMOVE_DUPLICATES MUSTER_STATIC_LIBRARIES)
endif()
list(TRANSFORM MUSTER_STATIC_LIBRARIES PREPEND "-l" OUTPUT_VARIABLE static_arguments)
list(JOIN static_arguments "," static_arguments)
set(is_static $<BOOL:$<TARGET_PROPERTY:MUSTER_STATIC>>)
set(static_group "-Wl,--start-group,${static_arguments},--end-group")
target_link_libraries(muster_openssl INTERFACE "$<${is_static}:${static_group}>"
                      "$<$<NOT:${is_static}>:OpenSSL::SSL;OpenSSL::Crypto>")
target_link_libraries(muster_crypto INTERFACE "$<${is_static}:${static_group}>" "$<$<NOT:${is_static}>:OpenSSL::Crypto>")
# Programs that people type start in a tenth of the time without the 60 shared libraries that gRPC comes in: with the
# property MUSTER_STATIC_GRPC they have its archives, and all else as shared libraries.
if(MUSTER_WITH_GRPC)
  set(grpc_arguments grpc++_reflection ${GRPC_STATIC_LIBRARIES})
  list(REMOVE_DUPLICATES grpc_arguments)
  list(REMOVE_ITEM grpc_arguments ssl crypto z dl pthread atomic m rt)
  list(TRANSFORM grpc_arguments PREPEND "-l")
  list(JOIN grpc_arguments "," grpc_arguments)
  set(has_archives $<BOOL:$<TARGET_PROPERTY:MUSTER_STATIC_GRPC>>)
  target_link_libraries(muster_grpc INTERFACE "$<${is_static}:${static_group}>"
                        "$<${has_archives}:-Wl,-Bstatic,--start-group,${grpc_arguments},--end-group,-Bdynamic>"
                        "$<${has_archives}:-lssl;-lcrypto;-lz>"
                        "$<$<NOT:$<OR:${is_static},${has_archives}>>:PkgConfig::GRPC>")
  add_library(muster_grpc_reflection INTERFACE)
  target_link_libraries(muster_grpc_reflection INTERFACE muster_grpc "$<$<NOT:${has_archives}>:grpc++_reflection>")
endif()

# Unwinding of other processes. elfutils' archives need each other and three compressors.
add_library(muster_dw INTERFACE)
target_link_libraries(muster_dw INTERFACE "$<${is_static}:-Wl,--start-group,-ldw,-lelf,-lz,-lbz2,-llzma,--end-group>"
                      "$<$<NOT:${is_static}>:-ldw>")

add_library(muster_warnings INTERFACE)
target_compile_options(muster_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${MUSTER_WERROR}>:-Werror>
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>
                       # g++ 12 sees overlaps in std::string's operator+ that are not there (GCC bug 105329).
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
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

if(MUSTER_SANITIZE STREQUAL "address")
  target_compile_options(muster_common INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(muster_common INTERFACE -fsanitize=address,undefined)
elseif(MUSTER_SANITIZE STREQUAL "thread")
  target_compile_options(muster_common INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(muster_common INTERFACE -fsanitize=thread)
elseif(NOT MUSTER_SANITIZE STREQUAL "")
  message(FATAL_ERROR "MUSTER_SANITIZE is address, thread or empty, not '${MUSTER_SANITIZE}'")
endif()
if(MUSTER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "MUSTER_FUZZ needs clang: use the preset 'fuzz'")
  endif()
  target_compile_options(muster_common INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(muster_library name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC muster_common ${ARG_DEPS} PRIVATE muster_warnings)
endfunction()

function(muster_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(MUSTER_SANITIZE) # which makes programs many times slower
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE muster_common muster_warnings ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
endfunction()

add_custom_target(fuzzers)
function(muster_fuzz name)
  cmake_parse_arguments(ARG "" "CORPUS" "DEPS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE muster_common muster_warnings ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(MUSTER_FUZZ)
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name} COMMAND ${name} -runs=20000 -max_total_time=20 ${CMAKE_CURRENT_BINARY_DIR}/${name}_found ${ARG_CORPUS})
    file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/${name}_found)
  else()
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME ${name} COMMAND ${name} ${ARG_CORPUS})
  endif()
  set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 120)
  add_dependencies(fuzzers ${name})
endfunction()
