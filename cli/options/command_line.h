// Cuts a command line into options and command by a flag table. Pure.
//
// Options end at the first word that is neither an option nor an option's value, or at "--"; from there everything is
// the command, byte for byte. Attached values: --timeout=5m, -np=4, -p2222 (numbers only).
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/help/flags.h"

namespace muster::cli::inline options {

struct GivenOption {
  const Flag* flag = nullptr;
  std::string spelling;  // as typed
  std::string value;     // several words are joined by a blank
};

struct CommandLine {
  std::vector<GivenOption> options;  // in order
  std::vector<std::string> command;  // empty: none was given
  bool is_verbatim = false;          // "--" stood before the command
  bool is_answered = false;          // the last of `options` stands alone; nothing after it was read
};

// Whether `word` is one of the table's options, perhaps with its value.
bool is_option(const std::string& word, const FlagTable& table);

enum class Abbreviations {
  kNone,
  kHorovodruns
};  // kHorovodruns: as of cli/options/horovodrun.h, where a word is no option

// Errors are one sentence and name the option that was probably meant.
base::Result<CommandLine> split_command_line(const std::vector<std::string>& words, const FlagTable& table,
                                             Abbreviations abbreviations = Abbreviations::kNone);

}  // namespace muster::cli::options
