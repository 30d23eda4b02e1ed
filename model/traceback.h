// Finds the exception in the last lines of a Python program's stderr. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::model {

// Returns the line that names the exception, such as "ValueError: x": the first line after the last traceback, which
// may begin before `text`. For a crash that faulthandler has reported, returns its line "Fatal Python error: …".
// Empty if there is no traceback. The result is a part of `text`.
std::string_view exception_line(std::string_view text);

// True if both name the same exception. Numbers may differ, because messages often hold a rank, an address or a time.
bool is_same_exception(std::string_view a, std::string_view b);

// Returns the module that an import did not find: "x.y" for "ModuleNotFoundError: No module named 'x.y'", and also for
// the line that python3 -m prints. Empty for other texts.
std::string missing_module(std::string_view text);

// Returns the shared library that an import did not find: "libx.so.1" for "ImportError: libx.so.1: cannot open shared
// object file: …". Empty for other exceptions.
std::string missing_library(std::string_view exception);

}  // namespace muster::model
