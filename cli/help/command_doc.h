// The description of a command. Its help, its man page and the completion of its options come from it.
// Thread: any; the data is constant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/help/flags.h"

namespace muster::cli::inline help {

struct GroupTitle {
  FlagGroup group;
  std::string_view title;
};

struct Example {
  std::string_view command;
  std::string_view effect;  // empty if the command needs no explanation
};

struct ExitCode {
  std::string codes;
  std::string_view meaning;
};

// Commands of a program, as its help lists them.
struct CommandGroup {
  struct Command {
    std::string_view name;
    std::string_view summary;
    bool has_page = true;  // false if another command's manual page explains it
  };
  std::string_view title;
  std::vector<Command> commands;
};

struct CommandDoc {
  std::string_view name;         // "hvdrun", "muster torchrun"
  std::string_view summary;      // after the name, without a full stop
  std::string_view usage;        // the words after the name
  std::string_view description;  // paragraphs, separated by an empty line
  std::vector<GroupTitle> groups;
  const FlagTable* table;
  std::string_view notes;  // paragraphs about all options
  std::vector<Example> examples;
  std::vector<ExitCode> exit_codes;
  std::vector<std::string_view> aliases = {};    // other names of a verb, without "muster"
  std::vector<std::string_view> most_used = {};  // names of options for -h; empty means all options of the table
  std::vector<CommandGroup> commands = {};       // the verbs of a program that has some
};

}  // namespace muster::cli::help
