// stdin, stdout and stderr of the programs: there from the first line on, and answered for at the end.
#pragma once

#include <chrono>
#include <string_view>

namespace muster::cli::inline hosts {

// For a terminal that does not take a program's last lines.
inline constexpr std::chrono::seconds kLastWords{2};

// Call first. Where one of the three was closed (`>&-`), the program is started again with /dev/null in its place:
// their numbers would be those of sockets and files, also of libraries that open some before main(). Without /proc or
// /dev/null it goes on as it is.
void hold_standard_streams(char** argv);

// What a program was asked for, on stdout: 0, else the exit code, after a line on stderr. A pipe that nobody reads any
// more ends a program that has not ignored SIGPIPE; else the code is the same.
int print_answer(std::string_view program, std::string_view text);

// Prints `program`: `message` on stderr. Returns `code`.
int fail_as(std::string_view program, int code, std::string_view message);

}  // namespace muster::cli::hosts
