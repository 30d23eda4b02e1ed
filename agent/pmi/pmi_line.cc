#include "agent/pmi/pmi_line.h"

#include <algorithm>

#include "base/strings.h"

namespace muster::agent::inline pmi {
namespace {

constexpr std::size_t kMostWords = 32;

base::Status no_pmi(std::string_view line) {
  return base::invalid_argument("'{}' is not a PMI-1 command", base::printable(line.substr(0, 80)));
}

// Removes the next word from `rest`. A word without '=' gets an empty key.
std::pair<std::string_view, std::string_view> read_word(std::string_view& rest) {
  const std::size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
  rest.remove_prefix(begin);
  const std::size_t equals = rest.find('=');
  std::size_t end = std::min(rest.find(' '), rest.size());
  if (equals >= end) {
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(end);
    return {{}, word};
  }
  const std::string_view key = rest.substr(0, equals);
  if (key == "value") end = rest.size();
  const std::string_view value = rest.substr(equals + 1, end - equals - 1);
  rest.remove_prefix(end);
  return {key, value};
}

}  // namespace

std::string_view PmiCommand::word(std::string_view key) const {
  const auto found = std::ranges::find(words, key, &std::pair<std::string, std::string>::first);
  return found == words.end() ? std::string_view() : std::string_view(found->second);
}

base::Result<PmiCommand> parse_pmi_line(std::string_view line) {
  std::string_view rest = line;
  const auto [first, name] = read_word(rest);
  if ((first != "cmd" && first != "mcmd") || name.empty()) return no_pmi(line);
  PmiCommand command{.name = std::string(name), .words = {}};
  while (!rest.empty() && command.words.size() < kMostWords) {
    const auto [key, value] = read_word(rest);
    if (!key.empty()) command.words.emplace_back(key, value);
  }
  return command;
}

base::Result<std::optional<std::string_view>> PmiReader::next_line() {
  const std::size_t end = rest_.find('\n', begin_);
  if (end != std::string::npos && end - begin_ <= kMaxPmiLine) {
    const std::string_view line = std::string_view(rest_).substr(begin_, end - begin_);
    begin_ = end + 1;
    return std::optional(line);
  }
  rest_.erase(0, begin_);
  begin_ = 0;
  if (rest_.size() > kMaxPmiLine) {
    return base::invalid_argument("a line of more than {} bytes", kMaxPmiLine);
  }
  return std::optional<std::string_view>();
}

base::Result<std::optional<PmiCommand>> PmiReader::next() {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const std::optional<std::string_view> line, next_line());
    if (!line) return std::optional<PmiCommand>();
    if (!is_in_spawn_) {
      MUSTER_ASSIGN_OR_RETURN(PmiCommand command, parse_pmi_line(*line));
      is_in_spawn_ = line->substr(line->find_first_not_of(' ')).starts_with("mcmd");
      if (!is_in_spawn_) return std::optional(std::move(command));
    } else if (*line == "endcmd") {
      is_in_spawn_ = false;
      return std::optional(PmiCommand{.name = "spawn", .words = {}});
    }
  }
}

}  // namespace muster::agent::pmi
