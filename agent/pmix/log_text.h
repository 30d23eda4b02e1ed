// The text in what a rank hands to PMIx_Log: Open MPI packs its help texts (file, topic, a flag, text), each field
// behind a count of one, integers big-endian, strings with their length and a NUL. From the ranks: any bytes. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::pmix {

// The last string of a packed help text; of other bytes the longest run of printable ones. At most 64 KiB; control
// characters but newline and tab are left out; ends with a newline, unless it is empty.
std::string log_text(std::string_view packed);

// A string as it was given, made fit for a terminal in the same way.
std::string printable_text(std::string_view text);

}  // namespace muster::agent::pmix
