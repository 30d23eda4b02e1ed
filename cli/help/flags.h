// The options of a command as one table: their spellings, what follows them, where else they can be set, what they do.
// The parser, the configuration files, the help, the man page, the shell completions and the nearest-name search all
// read the same rows. Constant data; any thread.
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
  std::string_view text;        // as typed, dashes included
  std::string_view value = {};  // what it says all by itself: --no-autotune says "false"; empty: a value follows
};

enum class Repeat {
  kLastCounts,
  kAddsUp,         // within one source (a file, the command line); a later source replaces the earlier one's
  kAddsUpOverAll,  // over all sources
};

enum class Completes { kNothing, kFile, kDirectory, kHost, kTemplate };

// What an option that this version does not act upon is answered with.
enum class Answer {
  kNone,
  kNote,     // a line; the job runs
  kRefusal,  // an error; nothing is started
};

struct Flag {
  std::string_view name;  // the canonical long name, without dashes
  std::vector<Spelling> spellings;
  int values = 0;  // how many words follow a spelling that has no value of its own
  FlagGroup group = FlagGroup::kGeneral;
  std::string_view value_name = {};            // for the help: "N", "slot|node"
  std::vector<std::string_view> choices = {};  // the values, or those that completion offers
  std::string_view help = {};
  std::string_view standard = {};  // the value that holds when nobody sets one, as it would be typed
  Completes completes = Completes::kNothing;
  std::string config_key = {};  // "params.cycle_time_ms", "muster.timeout"; empty: on the command line only
  char separator = '\0';        // joins the items of a list in a configuration file; '\0': a list is refused there
  Repeat repeat = Repeat::kLastCounts;
  std::string_view exclusive = {};    // options with the same word here exclude each other
  std::string_view environment = {};  // a variable beside MUSTER_<NAME> that sets it
  Answer answer = Answer::kNone;
  std::string_view answer_text = {};  // after "<spelling>: "
  std::string_view harmless = {};     // the value that asks for nothing, and so is not answered
  bool stands_alone = false;          // answered at once, whatever else is on the line (--help)

  // Without a value of its own: on or off.
  bool is_switch() const { return values == 0; }
  // May be set outside the command line.
  bool is_setting() const { return !config_key.empty(); }
  // MUSTER_NUM_PROC; empty where no variable sets it.
  std::string variable() const;
};

class FlagTable {
 public:
  explicit FlagTable(std::vector<Flag> flags) : flags_(std::move(flags)) {}

  struct Match {
    const Flag* flag;
    const Spelling* spelling;
  };

  const std::vector<Flag>& flags() const { return flags_; }
  std::optional<Match> find(std::string_view spelling) const;
  const Flag& named(std::string_view name) const;  // a name of the table
  // The spelling that was probably meant: the nearest one, or the one that `word` abbreviates.
  std::optional<std::string> nearest(std::string_view word) const;

 private:
  std::vector<Flag> flags_;
};

}  // namespace muster::cli::help
