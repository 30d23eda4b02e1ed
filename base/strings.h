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

// A whole decimal number without sign or blanks, at most `max`; nullopt otherwise.
std::optional<long> parse_decimal(std::string_view text, long max);

// "0-3,8" as 0, 1, 2, 3, 8: sorted, each once; "" is none. nullopt: not such a list, or a number above `max`.
std::optional<std::vector<int>> parse_number_list(std::string_view text, int max);

// In single quotes where a POSIX shell would touch it: the word comes out of `sh -c` unchanged.
std::string shell_quote(std::string_view word);

// The word of `words` with the smallest edit distance to `word`, if that is at most a third of its length (rounded up).
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> words);

// `text` with every byte that is part of no well-formed UTF-8 character replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// ASCII letters in lower case; all other bytes as they are.
std::string lower(std::string_view text);
bool is_utf8(std::string_view text);

// Bytes that a terminal would act on (control characters) become \xNN: text of hosts and programs in our own messages.
std::string printable(std::string_view text);

}  // namespace muster::base
