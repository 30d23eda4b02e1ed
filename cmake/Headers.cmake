# Precompiled headers, one target for each family of third-party headers, shared by all targets of the same kind:
#   grpc        the standard library, fmt, Protobuf, gRPC and the messages of proto/
#   test        the standard library, fmt, GoogleTest and GoogleMock
#   grpc_test   both
# Units of other targets gain nothing: they parse the standard library once for many of our files.
# muster_precompile() is called once, at the end: only then is it known what each target links.
# Sources include what they use all the same: tools/test files compiles without these headers.
option(MUSTER_PRECOMPILE "Precompile third-party headers" ${MUSTER_LAUNCHER})
set_property(GLOBAL PROPERTY MUSTER_PRECOMPILED "")  # name and kind of each target, in turns

set(MUSTER_STD_HEADERS <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <deque> <filesystem> <fstream>
    <functional> <future> <map> <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread>
    <unordered_map> <utility> <variant> <vector> <fmt/format.h>)
set(MUSTER_TEST_HEADERS <gmock/gmock.h> <gtest/gtest.h>)

function(muster_header_family name)
  cmake_parse_arguments(ARG "" "" "HEADERS;DEPS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/units/headers_${name}.cc CONTENT "// Made to be compiled with headers.\n" @ONLY)
  add_library(muster_headers_${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/units/headers_${name}.cc)
  target_link_libraries(muster_headers_${name} PRIVATE muster_common muster_warnings ${ARG_DEPS})
  target_precompile_headers(muster_headers_${name} PRIVATE ${ARG_HEADERS})
endfunction()

# Whether the target `name` links `wanted`, itself or through what it links.
function(muster_links out name wanted)
  get_property(known GLOBAL PROPERTY MUSTER_LINKS_${wanted}_${name})
  if("${known}" STREQUAL "")
    set(known FALSE)
    if("${name}" STREQUAL "${wanted}")
      set(known TRUE)
    endif()
    set_property(GLOBAL PROPERTY MUSTER_LINKS_${wanted}_${name} ${known})
    set(libraries "")
    if(TARGET ${name})
      get_target_property(libraries ${name} LINK_LIBRARIES)
      get_target_property(interface ${name} INTERFACE_LINK_LIBRARIES)
      list(APPEND libraries ${interface})
    endif()
    foreach(library ${libraries})
      if(known)
        break()
      endif()
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" library "${library}")
      if("${library}" STREQUAL "${wanted}")
        set(known TRUE)
      elseif("${library}" MATCHES "^muster_|^libmuster$")
        muster_links(known ${library} ${wanted})
      endif()
    endforeach()
    set_property(GLOBAL PROPERTY MUSTER_LINKS_${wanted}_${name} ${known})
  endif()
  set(${out} ${known} PARENT_SCOPE)
endfunction()

# `kind` is empty or _test.
function(muster_precompiled name kind)
  set_property(GLOBAL APPEND PROPERTY MUSTER_PRECOMPILED ${name} "kind${kind}")
endfunction()

function(muster_precompile)
  if(NOT MUSTER_PRECOMPILE)
    return()
  endif()
  muster_header_family(test HEADERS ${MUSTER_STD_HEADERS} ${MUSTER_TEST_HEADERS} DEPS GTest::gmock GTest::gtest)
  if(MUSTER_WITH_GRPC)
    set(messages ${MUSTER_PROTO_HEADERS})
    list(TRANSFORM messages REPLACE "(.+)" "<\\1>")
    set(grpc ${MUSTER_STD_HEADERS} <grpcpp/grpcpp.h> ${messages})
    muster_header_family(grpc HEADERS ${grpc} DEPS muster_grpc)
    muster_header_family(grpc_test HEADERS ${grpc} ${MUSTER_TEST_HEADERS} DEPS muster_grpc GTest::gmock GTest::gtest)
    foreach(family grpc grpc_test)
      target_include_directories(muster_headers_${family} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
      add_dependencies(muster_headers_${family} muster_proto_sources)
    endforeach()
  endif()
  get_property(targets GLOBAL PROPERTY MUSTER_PRECOMPILED)
  while(targets)
    list(POP_FRONT targets name kind)
    string(REGEX REPLACE "^kind" "" kind ${kind})
    muster_links(uses_grpc ${name} muster_proto_generated)
    if(uses_grpc OR kind)
      # ccache takes such a file only then: it has to see which header was used.
      target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
    endif()
    if(uses_grpc)
      target_precompile_headers(${name} REUSE_FROM muster_headers_grpc${kind})
    elseif(kind)
      target_precompile_headers(${name} REUSE_FROM muster_headers_test)
    endif()
  endwhile()
endfunction()
