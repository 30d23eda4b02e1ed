// Finds what a shell can offer for the last word of a command line, from the tables of options.
// A program answers `PROGRAM __complete WORD...` with it (docs/adr/0060). completion_script.h has the scripts that ask.
// Thread: any; all functions are pure.
// Errors: none. A line that no table explains has no candidates.
// Example:
//
//   Completion found = complete_words(program, {"status", "k"});
//   if (found.wanted == Completes::kAnyJob) …  // the caller adds jobs
//   print(format_completion(found));
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/help/flags.h"

namespace muster::cli::inline help {

// The first argument that makes a program answer a shell.
inline constexpr std::string_view kCompletionWord = "__complete";

// A program, and its verbs if it has any.
struct CompletedProgram {
  struct Verb {
    std::string_view name;  // empty if the program has no verbs; the table then holds the program's options
    const FlagTable* table;
    std::string_view summary = {};
    std::vector<std::string_view> aliases = {};  // other names, which are understood but not offered
  };
  std::string_view name;
  std::vector<Verb> verbs;
  const FlagTable* own = nullptr;  // options before a verb; nullptr means none
};

struct Candidate {
  std::string text;  // for the whole last word, without Completion::before
  std::string description = {};
};

struct GivenOption {
  const Flag* flag;
  std::string spelling;
  std::string value;
};

// The candidates for the last word of a line, and what the line says before it.
struct Completion {
  std::vector<Candidate> candidates = {};
  // The kind of the last word. The caller adds jobs, hosts and templates. The shell adds files and programs.
  Completes wanted = Completes::kNothing;
  std::string before = {};                  // the beginning of the last word that stays, such as "--hosts=n1,"
  std::string word = {};                    // the rest of the last word; candidates begin with it
  std::size_t command_at = 0;               // kCommand: index of the program's word
  bool continues = false;                   // more may follow in the same word, so the shell adds no blank
  std::vector<GivenOption> options = {};    // those before the last word
  std::vector<std::string> arguments = {};  // the words before the last one that are no options
};

// Completes the last of `words`, which follow the program's name.
Completion complete_words(const CompletedProgram& program, const std::vector<std::string>& words);

// Adds the candidate if it begins with the word and can stand on a command line without quotes.
void add_candidate(Completion& completion, std::string_view text, std::string_view description = {});

// Returns the answer to a shell: "TEXT\tDESCRIPTION" lines. Lines that begin with a colon come first. They tell the
// shell what to do:
//   :nospace           add no blank
//   :files\tBEFORE     also offer files, behind this beginning of the word
//   :folders\tBEFORE   the same with folders
//   :command\tN        complete the command that begins at this word
std::string format_completion(const Completion& completion);

}  // namespace muster::cli::help
