// Extracts the text from what a rank passes to PMIx_Log. The bytes come from ranks, so they may be anything. Pure.
// Open MPI packs its help texts as file, topic, a flag and the text. A count of one precedes each field. Integers are
// big-endian; strings have their length in front and a NUL at the end.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::pmix {

// Returns the last string of a packed help text. For any other bytes, returns the longest run of printable ones.
// Returns at most 64 KiB, without control characters other than newline and tab. Ends with a newline, unless it is
// empty.
std::string log_text(std::string_view packed);

// Makes a plain string fit for a terminal in the same way.
std::string printable_text(std::string_view text);

}  // namespace muster::agent::pmix
