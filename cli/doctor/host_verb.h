// The common part of verbs that ask hosts (`muster doctor`, `muster cleanup`). They have hvdrun's options on which
// hosts and how they are reached; the same files and variables set these. They add a few options of their own.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/help/command_doc.h"
#include "cli/help/flag_row.h"
#include "cli/options/command_line.h"
#include "cli/options/config_file.h"
#include "cli/options/options.h"

namespace muster::cli::inline doctor {

// Makes a table of hvdrun's rows with these names, the verb's own rows, --color, -h and --help. `arguments` are the
// verb's words.
FlagTable host_verb_flags(std::span<const std::string_view> of_hvdrun, std::vector<FlagRow> own,
                          std::vector<Argument> arguments = {});

// hvdrun's options that tell a verb which hosts to ask, and how to reach them.
inline constexpr auto kFlagsOfHostVerbs =
    std::to_array<std::string_view>({"hosts", "hostfile", "ssh-port", "ssh-identity-file", "ssh-backend", "bootstrap",
                                     "bootstrap-cmd", "agent-dir", "verbose", "start-timeout", "config-file"});

struct HostVerb {
  const CommandDoc& doc;  // error messages begin with its name; its table lists the options of the command line
  // Reads the option if it is the verb's own. Returns false if it is not.
  std::function<base::Result<bool>(const ParsedOption& option)> take;
  // Returns a sentence on how to name hosts, for a user who typed these words.
  std::function<std::string(const std::vector<std::string>& words)> advice;
  // Reads the words after the options. Empty if the verb takes no words.
  std::function<base::Status(const std::vector<std::string>& words)> parse_words = {};
  // The options that files and variables may set, hvdrun's included. nullptr means hvdrun's only.
  const FlagTable* settable = nullptr;
  // The program's own configuration file. nullptr means that it has none.
  const OwnFile* own_file = nullptr;
  // Reads the verb's own options from files, variables and the line. May be empty.
  std::function<base::Status(const Settings& settings)> read = {};
  // Returns the answer to an option, other than --help, that stands alone. Empty if the verb has no such option.
  std::function<std::string(const ParsedOption& option)> answer = {};
};

struct HostVerbLine {
  // If set, `text` answers the command line. Help goes to stdout with 0, a mistake goes to stderr with 2.
  std::optional<int> exit_code;
  std::string text;      // whole lines
  bool is_help = false;  // `text` is a help text
  HvdrunOptions options;
};

// Reads no file except the configuration.
HostVerbLine read_host_verb(const HostVerb& verb, const std::vector<std::string>& arguments,
                            const base::Environment& environment, const ParseContext& context);

}  // namespace muster::cli::doctor
