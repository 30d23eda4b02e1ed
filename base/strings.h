// Small text functions that more than one room needs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::base {

std::vector<std::string_view> split(std::string_view text, char separator);  // "a,,b" -> a, "", b; "" -> ""
std::string join(std::span<const std::string> parts, std::string_view separator);
std::string_view trim(std::string_view text);  // ASCII blanks at both ends
bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes);

// Parses a whole decimal number without sign or blanks, at most `max`; nullopt otherwise.
std::optional<long> parse_decimal(std::string_view text, long max);

// Parses "0-3,8" as 0, 1, 2, 3, 8: sorted, each once. "" gives an empty list. nullopt if the text is not such a list or
// has a number above `max`.
std::optional<std::vector<int>> parse_number_list(std::string_view text, int max);

// Quotes the word if a POSIX shell would change it. Then `sh -c` yields the same word.
std::string shell_quote(std::string_view word);

// Returns the word of `words` with the smallest edit distance to `word`. nullopt if that distance exceeds a third of
// its length, rounded up.
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> words);

// Returns `text` with U+FFFD in place of every byte that belongs to no well-formed UTF-8 character.
std::string valid_utf8(std::string_view text);

// Returns ASCII letters in lower case and all other bytes unchanged.
std::string lower(std::string_view text);
bool is_utf8(std::string_view text);

// Writes bytes on which a terminal would act (control characters) as \xNN. Use it for text of hosts and programs in our
// own messages.
std::string printable(std::string_view text);

}  // namespace muster::base
