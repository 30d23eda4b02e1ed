// Builds one row of a flag table in two or three lines. Only the files with tables use it.
// Example:
//
//   option("map-by", {"--map-by"}, "slot|node", "How ranks are dealt to hosts.").standard("slot")
//   toggle("oversubscribe", {{"--oversubscribe", "true"}, {"--no-oversubscribe", "false"}}, "Allow more ranks than
//   slots.")
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "cli/help/flags.h"

namespace muster::cli::inline help {

class FlagRow {
 public:
  explicit FlagRow(Flag flag) : flag_(std::move(flag)) {}

  FlagRow& standard(std::string_view value) { return set(&Flag::standard, value); }
  FlagRow& completes(Completes what) { return set(&Flag::completes, what); }
  FlagRow& key(std::string_view config_key) { return set(&Flag::config_key, std::string(config_key)); }
  FlagRow& command_line_only() { return key(""); }
  FlagRow& list(char separator) { return set(&Flag::separator, separator); }
  FlagRow& repeats(Repeat repeat) { return set(&Flag::repeat, repeat); }
  FlagRow& exclusive(std::string_view group) { return set(&Flag::exclusive, group); }
  FlagRow& environment(std::string_view variable) { return set(&Flag::environment, variable); }
  // Accepts any value; those in the value's name are only examples.
  FlagRow& any_value() { return set(&Flag::choices, std::vector<std::string_view>()); }
  // Words that completion offers. Other values are valid, too.
  FlagRow& offers(std::vector<std::string_view> words) { return set(&Flag::choices, std::move(words)); }
  FlagRow& words(int count) { return set(&Flag::values, count); }
  FlagRow& says(Spelling spelling) {
    flag_.spellings.push_back(spelling);
    return *this;
  }
  FlagRow& note(std::string_view text) { return set(&Flag::answer, Answer::kNote).set(&Flag::answer_text, text); }
  FlagRow& unless(std::string_view name) { return set(&Flag::answer_unless, name); }
  FlagRow& refusal(std::string_view text) { return set(&Flag::answer, Answer::kRefusal).set(&Flag::answer_text, text); }
  FlagRow& except(std::string_view harmless) { return set(&Flag::harmless, harmless); }
  FlagRow& stands_alone() { return set(&Flag::stands_alone, true).command_line_only(); }
  FlagRow& group(FlagGroup group) { return set(&Flag::group, group); }

  const Flag& flag() const { return flag_; }

 private:
  template <typename T>
  FlagRow& set(T Flag::*member, T value) {
    flag_.*member = std::move(value);
    return *this;
  }

  Flag flag_;
};

inline std::string own_key(std::string_view name) {
  std::string key = "muster." + std::string(name);
  std::ranges::replace(key, '-', '_');
  return key;
}

// Makes an option with a value. A value name such as "a|b|c" lists the only valid values.
inline FlagRow option(std::string_view name, std::initializer_list<std::string_view> spellings,
                      std::string_view value_name, std::string_view help) {
  Flag flag;
  flag.name = name;
  for (const std::string_view text : spellings) flag.spellings.push_back({text});
  flag.values = 1;
  flag.value_name = value_name;
  if (value_name.find('|') != std::string_view::npos) flag.choices = base::split(value_name, '|');
  flag.help = help;
  flag.config_key = own_key(name);
  return FlagRow(std::move(flag));
}

// Makes a switch that has exactly these spellings.
inline FlagRow toggle(std::string_view name, std::initializer_list<Spelling> spellings, std::string_view help) {
  Flag flag;
  flag.name = name;
  flag.spellings = spellings;
  flag.help = help;
  flag.config_key = own_key(name);
  return FlagRow(std::move(flag));
}

// Makes the rows of -h and --help, which every command has.
inline std::vector<FlagRow> help_rows() {
  return {toggle("short-help", {{"-h", "true"}}, "Print the most used options.").stands_alone(),
          toggle("help", {{"--help", "true"}}, "Print all options.").stands_alone()};
}

inline void add_group(FlagGroup group, std::vector<FlagRow> rows, std::vector<Flag>& flags) {
  for (FlagRow& row : rows) flags.push_back(row.group(group).flag());
}

}  // namespace muster::cli::help
