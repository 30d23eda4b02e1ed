// Makes sure that stdin, stdout and stderr exist from the start, and reports failures to write to them.
#pragma once

#include <chrono>
#include <string_view>

namespace muster::cli::inline hosts {

// How long a program waits at its end for a terminal to take its last lines.
inline constexpr std::chrono::seconds kFlushTimeout{2};

// Call it first in main(). If one of the three streams was closed (`>&-`), it starts the program again with /dev/null
// in place of the stream. Otherwise the next socket or file would get the stream's number, even one that a library
// opens before main(). Without /proc or /dev/null the program continues unchanged.
void hold_standard_streams(char** argv);

// Prints the answer of a program on stdout. Returns 0, or an exit code after a line on stderr.
// If no process reads the pipe, SIGPIPE ends the program. If the program ignores SIGPIPE, returns kStdoutClosed.
int print_answer(std::string_view program, std::string_view text);

// Prints "`program`: `message`" on stderr. Returns `code`.
int fail_as(std::string_view program, int code, std::string_view message);

}  // namespace muster::cli::hosts
