// Completion scripts for shells, written from the tables of options. Pure.
//
// Options are completed up to the first word that is none of them; from there on the shell completes the command. What
// has a fixed set of values offers them, files, directories and hosts are those of the shell.
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
    std::string_view name;  // empty: the program has no verbs, and these are its options
    const FlagTable* table;
  };
  std::string_view name;
  std::vector<Verb> verbs;
};

std::string bash_completion(const CompletedProgram& program);
std::string zsh_completion(const CompletedProgram& program);
std::string fish_completion(const CompletedProgram& program);

// By the name of the shell; nullopt: another shell.
std::optional<std::string> completion(std::string_view shell, const CompletedProgram& program);

// Names of shell functions: "torch.distributed.launch" -> "torch_distributed_launch".
std::string function_name(std::string_view program, std::string_view verb);

}  // namespace muster::cli::help
