#include "cli/options/command_line.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/horovodrun.h"

namespace muster::cli::inline options {
namespace {

Status unknown_option(std::string_view word, const FlagTable& table) {
  const auto nearest = table.nearest(word);
  return base::invalid_argument("unknown option {}{} (--help lists all options)", base::printable(word),
                                nearest ? fmt::format(", did you mean {}?", *nearest) : "");
}

// An option and the value that is attached to its word; nullopt if none is.
struct OptionWord {
  FlagTable::Match match{};
  std::optional<std::string> attached;
};

Result<OptionWord> read_option(const std::string& word, const FlagTable& table) {
  if (const auto match = table.find(word)) return OptionWord{*match, std::nullopt};
  const auto equals = word.find('=');
  if (equals != std::string::npos) {
    const std::string spelling = word.substr(0, equals);
    if (const auto match = table.find(spelling)) return OptionWord{*match, word.substr(equals + 1)};
    return unknown_option(spelling, table);
  }
  // A number may touch its letter (-p2222, -n4). Other text may not, because such a word is often another launcher's
  // long option.
  const auto match = word.starts_with("--") ? std::nullopt : table.find(word.substr(0, 2));
  const bool is_number = base::parse_decimal(std::string_view(word).substr(2), 999'999'999).has_value();
  if (match && match->flag->values == 1 && match->spelling->value.empty() && is_number) {
    return OptionWord{*match, word.substr(2)};
  }
  return unknown_option(word, table);
}

// Tries `word` as an abbreviation before it counts as unknown.
Result<OptionWord> read_abbreviation(const std::string& word, const FlagTable& table) {
  const auto equals = word.find('=');
  MUSTER_ASSIGN_OR_RETURN(const auto full, expand_abbreviation(word.substr(0, equals)));
  if (!full) return unknown_option(word.substr(0, equals), table);
  return read_option(equals == std::string::npos ? *full : *full + word.substr(equals), table);
}

// Refuses two spellings of one option that set different values, such as --gloo and --mpi.
Status check_contradiction(const CommandLine& line, const FlagTable::Match& now, const FlagTable& table) {
  for (const ParsedOption& before : line.options) {
    const auto earlier = table.find(before.spelling);
    if (before.flag == now.flag && earlier && !earlier->spelling->value.empty() &&
        earlier->spelling->value != now.spelling->value) {
      return base::invalid_argument("{} and {} exclude each other", before.spelling, now.spelling->text);
    }
  }
  return base::ok_status();
}

// Reads the option at `words[at]` and its values. Returns the index after them.
Result<std::size_t> read_option(const std::vector<std::string>& words, std::size_t at, const FlagTable& table,
                                Abbreviations abbreviations, CommandLine& line) {
  Result<OptionWord> read = read_option(words[at], table);
  if (!read.ok() && abbreviations == Abbreviations::kHorovodruns) read = read_abbreviation(words[at], table);
  MUSTER_ASSIGN_OR_RETURN(const OptionWord option, std::move(read));
  const Flag& flag = *option.match.flag;
  const Spelling& spelling = *option.match.spelling;
  const std::string text(spelling.text);
  if (!spelling.value.empty()) {
    if (option.attached) return base::invalid_argument("{} takes no value", text);
    MUSTER_RETURN_IF_ERROR(check_contradiction(line, option.match, table));
    line.options.push_back({&flag, text, std::string(spelling.value)});
    line.is_answered = flag.stands_alone;
    return at + 1;
  }
  const auto count = static_cast<std::size_t>(flag.values);
  std::vector<std::string> values;
  if (option.attached) values.push_back(*option.attached);
  for (std::size_t i = at + 1; i < words.size() && values.size() < count; ++i) values.push_back(words[i]);
  if (values.size() < count) {
    return base::invalid_argument("{} needs {}: {} {}", text, count == 1 ? "a value" : "more values", text,
                                  flag.value_name);
  }
  if (std::ranges::any_of(values, &std::string::empty)) {
    return base::invalid_argument("{} needs a value that is not empty", text);
  }
  line.options.push_back({&flag, text, base::join(values, " ")});
  line.is_answered = flag.stands_alone;
  return at + 1 + count - (option.attached ? 1 : 0);
}

}  // namespace

bool is_option(const std::string& word, const FlagTable& table) {
  return word.size() > 1 && word.front() == '-' && word != "--" && read_option(word, table).ok();
}

Result<CommandLine> split_command_line(const std::vector<std::string>& words, const FlagTable& table,
                                       Abbreviations abbreviations) {
  CommandLine line;
  std::size_t at = 0;
  while (at < words.size() && words[at].size() > 1 && words[at].front() == '-' && words[at] != "--") {
    MUSTER_ASSIGN_OR_RETURN(at, read_option(words, at, table, abbreviations, line));
    if (line.is_answered) return line;
  }
  line.is_verbatim = at < words.size() && words[at] == "--";
  if (line.is_verbatim) ++at;
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

}  // namespace muster::cli::options
