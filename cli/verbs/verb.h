// The common part of every verb that asks launchers: options and words in any order, help, mistakes that begin with the
// verb's name, and answers on stdout.
// Example:
//
//   VerbCall call(verb, wait_doc(), arguments);
//   if (call.exit_code()) return *call.exit_code();
//   if (call.words().empty()) return call.fail("which job? muster jobs lists them");
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/help/command_doc.h"
#include "cli/help/flag_row.h"
#include "cli/hosts/console.h"
#include "cli/options/exit_codes.h"
#include "cli/options/settings.h"

namespace muster::cli::inline verbs {

// The options and the other words of a verb. They may be mixed on the line.
struct VerbLine {
  CommandLine options;
  std::vector<std::string> words;
};
base::Result<VerbLine> read_verb_line(const std::vector<std::string>& arguments, const FlagTable& table);

class VerbCall {
 public:
  // Reads the line. If it asks for help or has a mistake, prints the answer and sets exit_code().
  VerbCall(std::string verb, const CommandDoc& doc, const std::vector<std::string>& arguments);

  const std::optional<int>& exit_code() const { return exit_code_; }
  const Console& console() const { return console_; }
  const std::string& verb() const { return verb_; }
  const std::vector<std::string>& words() const { return words_; }
  const Settings& settings() const { return settings_; }
  bool has(std::string_view option) const { return settings_.find(option) != nullptr; }

  // All three return the exit code. For a status it is kUsageError if the user's words are at fault, else kNotAnswered.
  int fail(std::string_view message, int code = kUsageError) const;
  int fail(const base::Status& status) const;
  int print(std::string_view text) const;
  // Prints a line on stderr, in addition to the answer.
  void remark(std::string_view message) const;

 private:
  const std::string verb_;
  const FlagTable& table_;
  const Console console_;
  std::vector<std::string> words_;
  Settings settings_;
  std::optional<int> exit_code_;
};

// Makes the flag table of a verb from its rows, --color, -h and --help. `arguments` are its words, for completion.
FlagTable verb_table(std::vector<FlagRow> rows, std::vector<Argument> arguments = {});

FlagRow json_row(std::string_view help);
// The row of --all, for verbs whose tables are shortened to a terminal's screen (cli/view/short_rows.h).
FlagRow all_rows_row();

// Adds the rows of --launcher, --tls-cert, --tls-key and --tls-ca (cli/verbs/launcher_address.h).
std::vector<FlagRow> with_launcher_rows(std::vector<FlagRow> rows);

}  // namespace muster::cli::verbs
