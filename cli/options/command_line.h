// Splits a command line into options and the command, by means of a flag table.
// Options end at "--", or at the first word that is neither an option nor an option's value. All later words are the
// command, unchanged. A value may touch its option: --timeout=5m, -np=4, -p2222 (numbers only).
// Thread: any; all functions are pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/help/flags.h"

namespace muster::cli::inline options {

struct ParsedOption {
  const Flag* flag = nullptr;
  std::string spelling;  // as typed
  std::string value;     // several words are joined by a space
};

struct CommandLine {
  std::vector<ParsedOption> options;  // in order
  std::vector<std::string> command;   // empty if none was given
  bool is_verbatim = false;           // true if "--" stood before the command
  // True if the last of `options` stands alone, like --help. Nothing after it was read.
  bool is_answered = false;
};

// True if `word` is an option of the table, with or without an attached value.
bool is_option(const std::string& word, const FlagTable& table);

enum class Abbreviations {
  kNone,
  kHorovodruns
  // kHorovodruns: a word that is no option may abbreviate an option of horovodrun (cli/options/horovodrun.h).
};

// An error is one sentence and names the option that the user probably meant.
base::Result<CommandLine> split_command_line(const std::vector<std::string>& words, const FlagTable& table,
                                             Abbreviations abbreviations = Abbreviations::kNone);

}  // namespace muster::cli::options
