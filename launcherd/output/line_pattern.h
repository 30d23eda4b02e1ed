// Functions that compare lines for LineFold: which lines may be folded, and what stays of a line without its numbers.
// Thread: any; pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::launcherd::inline output {

// Returns whether the line, with its '\n', draws on the terminal: a progress bar ('\r', '\b'), or an escape sequence
// other than a colour. Such a line must reach the terminal at once. "\r\n" at the end is a plain line.
bool draws(std::string_view line);

// Appends `text` with '#' in place of each number, such as 7, -0.25 and 1.5e-3. So texts that differ only in their
// numbers become equal. Digits inside of a word, as in "n12" and "0x1f", count, too.
void append_without_numbers(std::string_view text, std::string* to);

}  // namespace muster::launcherd::output
