#include "cli/help/flags.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "base/status.h"
#include "base/strings.h"

namespace muster::cli::inline help {

std::string Flag::variable() const {
  // No variable sets options that add up, because it would have to hold a list. Files and the command line can set
  // them.
  if (!is_setting() || repeat == Repeat::kAddsUpOverAll) return "";
  std::string variable = config_key.starts_with("launcherd.") ? "MUSTER_LAUNCHERD_" : "MUSTER_";
  variable += name;
  for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return variable;
}

std::optional<FlagTable::Match> FlagTable::find(std::string_view spelling) const {
  for (const Flag& flag : flags_) {
    const auto found = std::ranges::find(flag.spellings, spelling, &Spelling::text);
    if (found != flag.spellings.end()) return Match{&flag, &*found};
  }
  return std::nullopt;
}

const Flag& FlagTable::named(std::string_view name) const {
  const auto found = std::ranges::find(flags_, name, &Flag::name);
  MUSTER_CHECK(found != flags_.end());
  return *found;
}

std::optional<std::string> FlagTable::nearest(std::string_view word) const {
  // Prefer the same letters with other dashes to any near word: -np for --np, --hosts for -hosts.
  const std::string_view letters = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  for (const std::string& twin : {fmt::format("-{}", letters), fmt::format("--{}", letters)}) {
    if (!letters.empty() && twin != word && find(twin)) return twin;
  }
  constexpr std::size_t kLeast = 4;  // two dashes and two letters, because shorter words begin too many options
  std::vector<std::string> all;
  std::vector<std::string> abbreviated;
  for (const Flag& flag : flags_) {
    for (const Spelling& spelling : flag.spellings) {
      all.emplace_back(spelling.text);
      if (word.size() >= kLeast && spelling.text.starts_with(word)) abbreviated.emplace_back(spelling.text);
    }
  }
  if (abbreviated.size() == 1) return abbreviated.front();
  return base::nearest_word(word, all);
}

}  // namespace muster::cli::help
