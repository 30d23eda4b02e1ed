// Every option of hvdrun in one table: its spellings, what follows it, what it does. The parser, the help text and the
// nearest-name search read the same rows. Constant data; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli {

enum class FlagGroup { kRanks, kHosts, kSsh, kProgram, kOutput, kLife, kGeneral };

struct Flag {
  std::string_view name;                    // the canonical long name, without dashes
  std::vector<std::string_view> spellings;  // as typed, dashes included; single-dash long names too
  int values = 0;                           // how many words belong to it
  bool is_active = true;  // false: an option of horovodrun that this version knows of and does not have
  FlagGroup group = FlagGroup::kGeneral;
  std::string_view value_name = {};  // for the help
  std::string_view help = {};
};

std::span<const Flag> all_flags();

// By any spelling; nullptr when there is none.
const Flag* find_flag(std::string_view spelling);

// All spellings, for the nearest-name search.
std::vector<std::string> all_spellings();

}  // namespace muster::cli
