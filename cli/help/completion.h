// Writes completion scripts for shells from the tables of options.
// Thread: any; all functions are pure.
// Options are completed up to the first word that is no option. From there on the shell completes the command. An
// option with a fixed set of values offers these. Files, directories and hosts come from the shell.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/flags.h"

namespace muster::cli::inline help {

// A program, and its verbs if it has any.
struct CompletedProgram {
  struct Verb {
    std::string_view name;  // empty if the program has no verbs; the table then holds the program's options
    const FlagTable* table;
  };
  std::string_view name;
  std::vector<Verb> verbs;
};

std::string bash_completion(const CompletedProgram& program);
std::string zsh_completion(const CompletedProgram& program);
std::string fish_completion(const CompletedProgram& program);

// Returns the script for a shell by its name. nullopt for an unknown shell.
std::optional<std::string> completion(std::string_view shell, const CompletedProgram& program);

// The scripts of all shells use the following.

// The commands by which a shell completes each kind of value. `choices` is a format string with one {} for the words.
struct ValueActions {
  std::string_view choices, file, directory, host, job_template, nothing;
};
std::string value_action(const Flag& flag, const ValueActions& actions);

// Returns the spellings that need a value in the next word.
std::vector<std::string> spellings_with_value(const Flag& flag);

// Returns those spellings of all options that take this number of words as their value.
std::string spellings_with_values(const FlagTable& table, int values, std::string_view separator);

std::string verb_names(const CompletedProgram& program);

// Returns the name of a shell function, such as "torch_distributed_launch" for "torch.distributed.launch".
std::string function_name(std::string_view program, std::string_view verb);

}  // namespace muster::cli::help
