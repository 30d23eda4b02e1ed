// The options of a command as one table: their spellings, their values, other places that can set them, and their
// effect.
// All readers use the same rows: parser, configuration files, help, man page, shell completions, search for the nearest
// name.
// Thread: any; the data is constant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli::inline help {

enum class FlagGroup {
  kRanks,
  kHosts,
  kSsh,
  kProgram,
  kOutput,
  kLife,
  kTuning,
  kElastic,
  kGeneral,
  kTorch,
  kTorchUnneeded,
};

struct Spelling {
  std::string_view text;  // as typed, with its dashes
  // The value that this spelling sets by itself: --no-autotune sets "false". Empty if a value follows.
  std::string_view value = {};
};

enum class Repeat {
  kLastCounts,
  // Values add up within one source (a file, the command line). A later source replaces those of an earlier one.
  kAddsUp,
  kAddsUpOverAll,  // values add up over all sources
};

// The kind of an option's value, or of a word of a command. A shell offers words of this kind.
enum class Completes {
  kNothing,
  kFile,
  kDirectory,
  kHost,
  kTemplate,  // also files
  kJob,       // jobs that run or wait
  kAnyJob,    // also jobs that have ended
  kVariable,  // a name from the environment
  kCommand,   // a program and its arguments; no option follows
  kScript,    // a file and its arguments; no option follows
};

// The answer to an option that this version does not support.
enum class Answer {
  kNone,
  kNote,     // prints a line; the job runs
  kRefusal,  // is an error; nothing is started
};

struct Flag {
  std::string_view name;  // the canonical long name, without dashes
  std::vector<Spelling> spellings;
  int values = 0;  // number of words that follow a spelling without a value of its own
  FlagGroup group = FlagGroup::kGeneral;
  std::string_view value_name = {};            // for the help text: "N", "slot|node"
  std::vector<std::string_view> choices = {};  // the valid values, or those that completion offers
  std::string_view help = {};
  std::string_view standard = {};  // the default value, as the user would type it
  Completes completes = Completes::kNothing;
  // "params.cycle_time_ms", "muster.timeout". Empty if only the command line can set the option.
  std::string config_key = {};
  // Joins the items of a list in a configuration file. '\0' means that a list is refused there.
  char separator = '\0';
  Repeat repeat = Repeat::kLastCounts;
  std::string_view exclusive = {};    // options with the same word here exclude each other
  std::string_view environment = {};  // another variable that sets it, in addition to MUSTER_<NAME>
  Answer answer = Answer::kNone;
  std::string_view answer_text = {};    // the text after "<spelling>: "
  std::string_view harmless = {};       // the value that needs no answer, because it requests nothing
  std::string_view answer_unless = {};  // the answer is left out if this option is given, too
  bool stands_alone = false;            // answered at once, whatever else the line holds (--help)

  // True if no word follows the option: it is on or off.
  bool is_switch() const { return values == 0; }
  // True if it can also be set outside the command line.
  bool is_setting() const { return !config_key.empty(); }
  // Returns a name such as MUSTER_NUM_PROC. Empty if no variable sets the option.
  std::string variable() const;
};

// A word of a command that is neither an option nor its value, such as JOB.
struct Argument {
  Completes completes = Completes::kNothing;
  std::vector<std::string_view> choices = {};
  // The argument stands only in lines whose first word is this one, as HOST does in `muster hosts drain HOST`. Empty
  // means every line.
  std::string_view after = {};
  bool repeats = false;
};

class FlagTable {
 public:
  explicit FlagTable(std::vector<Flag> flags, std::vector<Argument> arguments = {})
      : flags_(std::move(flags)), arguments_(std::move(arguments)) {}

  struct Match {
    const Flag* flag;
    const Spelling* spelling;
  };

  const std::vector<Flag>& flags() const { return flags_; }
  // The words of the command, in their order.
  const std::vector<Argument>& arguments() const { return arguments_; }
  std::optional<Match> find(std::string_view spelling) const;
  const Flag& named(std::string_view name) const;  // `name` must be in the table
  // Returns the spelling that the user probably meant: the nearest one, or the only one that `word` abbreviates.
  std::optional<std::string> nearest(std::string_view word) const;

 private:
  std::vector<Flag> flags_;
  std::vector<Argument> arguments_;
};

}  // namespace muster::cli::help
