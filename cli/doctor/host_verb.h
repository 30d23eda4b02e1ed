// What the verbs that ask hosts share (`muster doctor`, `muster cleanup`): hvdrun's options on which hosts and how they
// are reached, with their files and variables, and a few options of the verb's own.
#pragma once

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
#include "cli/options/options.h"

namespace muster::cli::inline doctor {

// hvdrun's rows of these names, the verb's own, and --help.
FlagTable host_verb_flags(std::span<const std::string_view> of_hvdrun, std::vector<FlagRow> own);

struct HostVerb {
  const CommandDoc& doc;  // its name begins the mistakes, its table splits the line
  // Whether an option is the verb's own, and then it has been taken.
  std::function<base::Result<bool>(const GivenOption& option)> take;
  // How hosts are named, for one who typed these words.
  std::function<std::string(const std::vector<std::string>& words)> advice;
  // The words after the options, where the verb takes any; empty: there must be none.
  std::function<base::Status(const std::vector<std::string>& words)> take_words = {};
  // The options that files and variables may set, with hvdrun's among them; nullptr: hvdrun's alone.
  const FlagTable* settable = nullptr;
  // Reads what they and the line say of the verb's own options.
  std::function<base::Status(const Settings& settings)> read = {};
  // What another option than --help, which stands alone too, is answered with; may be empty.
  std::function<std::string(const GivenOption& option)> answer = {};
};

struct HostVerbLine {
  // Set: the command line is answered by `text` alone; help on stdout with 0, a mistake on stderr with 2.
  std::optional<int> exit_code;
  std::string text;  // whole lines
  HvdrunOptions options;
};

// Reads no file but the configuration.
HostVerbLine read_host_verb(const HostVerb& verb, const std::vector<std::string>& arguments,
                            const base::Environment& environment, const ParseContext& context);

}  // namespace muster::cli::doctor
