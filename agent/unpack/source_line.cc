#include "agent/unpack/source_line.h"

#include <charconv>

namespace muster::agent::inline unpack {
namespace {

constexpr std::uint64_t kLargestFile = 512U << 20;

std::string_view next_word(std::string_view& line) {
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size() == line.size() ? line.size() : word.size() + 1);
  return word;
}

std::optional<std::uint64_t> file_size(std::string_view word) {
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), size);
  const bool is_whole = error == std::errc() && end == word.data() + word.size();
  return is_whole && size > 0 && size <= kLargestFile ? std::optional(size) : std::nullopt;
}

bool is_hash(std::string_view word) {
  return word.size() == 64 && word.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

std::optional<SourceLine> parse_source_line(std::string_view line) {
  if (line.ends_with(' ')) return std::nullopt;
  const std::string_view verb = next_word(line);
  SourceLine source;
  source.sha256 = next_word(line);
  const auto size = file_size(next_word(line));
  if (!is_hash(source.sha256) || !size) return std::nullopt;
  source.size = *size;
  if (verb == "unpack") {
    const auto packed_size = file_size(next_word(line));
    if (!packed_size) return std::nullopt;
    source.packed_size = *packed_size;
    const bool has_token = !line.empty();
    source.token = next_word(line);
    return line.empty() && (!has_token || is_hash(source.token)) ? std::optional(source) : std::nullopt;
  }
  source.token = next_word(line);
  source.address = next_word(line);
  const auto port = file_size(next_word(line));
  if (verb != "fetch" || !is_hash(source.token) || source.address.empty() || !port || *port > 65535 || !line.empty()) {
    return std::nullopt;
  }
  source.port = static_cast<int>(*port);
  return source;
}

}  // namespace muster::agent::unpack
