# The functions that every room uses.
#
# PROCESSORS of a ctest entry counts halves of a core: ctest runs as many halves as `-j` says, and tools/test says two for
# each core. Tests that mostly wait (test hosts, ssh, leases) take one half, those that compute take two.
#   muster_library(NAME srcs... DEPS libs...)                 a static library of one room
#   muster_test(NAME UNIT srcs... LOCAL srcs... DEPS libs...) a GoogleTest program, each of its suites a ctest entry
#   muster_fuzz(NAME srcs... CORPUS dir DEPS libs...)         a fuzz target: libFuzzer with MUSTER_FUZZ, corpus replay otherwise

# Folders set this to OFF where the processor's time is ours and not the kernel's or a library's: collectives, output,
# stores. All others are compiled with -O1, which takes a quarter less time (bench/results/ has both sides).
set(MUSTER_COLD ON)

# AddressSanitizer's build compiles them with -O0, which takes half the time.
function(muster_optimize name)
  if(MUSTER_COLD)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  elseif(MUSTER_SANITIZE STREQUAL "address")
    target_compile_options(${name} PRIVATE -O1)
    # clang takes no headers that were precompiled with another level.
    set_target_properties(${name} PROPERTIES MUSTER_NOT_PRECOMPILED ON)
  endif()
endfunction()

# SEPARATE: each file is compiled by itself and without precompiled headers, because of compile options.
function(muster_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "DEPS" ${ARGN})
  set(sources ${ARG_UNPARSED_ARGUMENTS})
  if(NOT ARG_SEPARATE)
    muster_units(sources ${name} ${ARG_UNPARSED_ARGUMENTS})
    muster_precompiled(${name} "")
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC muster_common ${ARG_DEPS} PRIVATE muster_warnings)
  muster_optimize(${name})
endfunction()

# UNIT and LOCAL are the labels of the suites in those files; other sources have no suites. TIMEOUT holds for one suite.
# DIRECTORY: where the suites run. COMPUTES: they use the processor more than they wait. ALONE: sources compiled by themselves, with the reason in a comment there.
function(muster_test name)
  cmake_parse_arguments(ARG "COMPUTES" "TIMEOUT;DIRECTORY" "UNIT;LOCAL;ALONE;DEPS" ${ARGN})
  set(halves 1)
  if(ARG_COMPUTES OR MUSTER_SANITIZE)
    set(halves 2)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(MUSTER_SANITIZE) # which makes programs many times slower
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")
  endif()
  if(NOT ARG_DIRECTORY)
    set(ARG_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  endif()
  muster_units(sources ${name} ${ARG_UNPARSED_ARGUMENTS} ${ARG_UNIT} ${ARG_LOCAL})
  add_executable(${name} ${sources} ${ARG_ALONE})
  target_link_libraries(${name} PRIVATE muster_common muster_warnings ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  # The code of libraries, so that both can use precompiled headers of one kind.
  target_compile_options(${name} PRIVATE -fPIC)
  # clang warns of what g++ takes: TEST_F of a fixture without a default constructor, `namespace a::b` where b is inline.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-defaulted-function-deleted>
                         $<$<CXX_COMPILER_ID:Clang>:-Wno-inline-namespace-reopened-noninline>)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests POSITION_INDEPENDENT_CODE OFF
                        MUSTER_IS_TEST ON)
  if(ARG_COMPUTES AND MUSTER_SANITIZE STREQUAL "address")
    set(MUSTER_COLD OFF)
  endif()
  muster_optimize(${name})
  muster_precompiled(${name} _test)

  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  list(JOIN ARG_UNIT "," unit)
  list(JOIN ARG_LOCAL "," local)
  add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS ${suites} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DNAME=${name} -DPROGRAM=$<TARGET_FILE:${name}> -DFOLDER=${CMAKE_CURRENT_SOURCE_DIR}
            -DUNIT=${unit} -DLOCAL=${local} -DTIMEOUT=${ARG_TIMEOUT} -DHALVES=${halves} -DDIRECTORY=${ARG_DIRECTORY} -DOUTPUT=${suites}
            -P ${CMAKE_SOURCE_DIR}/cmake/suites.cmake)
  set(include ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
  file(CONFIGURE OUTPUT ${include} CONTENT "if(EXISTS \"${suites}\")
  include(\"${suites}\")
else()
  add_test(${name} ${name}-IS-NOT-BUILT)
endif()
" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${include})
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
