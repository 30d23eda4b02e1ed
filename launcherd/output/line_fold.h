// LineFold joins equal lines of several ranks, and equal tracebacks. FoldSink uses it before a console.
// Owner: FoldSink. Thread: one at a time; pure, all times are arguments.
//
// A line waits until all ranks have written it, at most for the window. A rank may have many lines waiting. The lines
// of a rank are shown in the order in which it wrote them, over both of its streams, except that a traceback has its
// place where its last line came. A traceback is one block. Text that draws on the terminal is never held: bars ('\r'),
// unfinished lines, and escape sequences other than colours. The rank's earlier lines are shown before it.
//
// A group is the text that some ranks have written. The groups of a rank form its chain. A group is shown after all
// groups before it in all of its ranks' chains. A rank may join a group only if this order stays free of cycles. Groups
// of several ranks therefore have a level that rises along each chain. Groups of a single rank need none.
//
// Example:
//   LineFold fold({}, [](const FoldedText& text) { … });
//   fold.set_ranks({0, 1});
//   fold.write(0, OutputStream::kStdout, "ready\n", {now, wall});
//   fold.write(1, OutputStream::kStdout, "ready\n", {now, wall});  // shows {0, 1} "ready\n"
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "launcherd/output/traceback_block.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

struct FoldOptions {
  bool ignores_numbers = false;  // lines that differ only in their numbers are equal
  base::Duration window = std::chrono::milliseconds(500);
  // Bounds of what waits. Above them the oldest lines are shown.
  std::size_t most_lines = 10'000;
  std::size_t most_bytes = std::size_t{4} << 20;
};

// The time at which output arrived. `stamp` is the time for labels. In the log of an old job many lines arrive at once,
// so a difference of the stamps also ends a window.
struct FoldTime {
  base::MonotonicTime now{};
  base::WallTime stamp{};
};

struct FoldedText {
  std::vector<int> ranks;  // in order
  proto::OutputStream stream = proto::OutputStream::kStdout;
  std::string_view text{};  // whole lines of all `ranks`; or any bytes of one rank
  base::WallTime stamp{};   // when its first line arrived
};

class LineFold {
 public:
  using Show = std::function<void(const FoldedText&)>;

  LineFold(FoldOptions options, Show show) : options_(options), show_(std::move(show)) {}

  // Shows what waits, and sets the ranks that write. Empty means that they are unknown: then each line waits for the
  // whole window. Ranks that are not in the list count from their first line on.
  void set_ranks(const std::vector<int>& ranks);

  // Takes output of a rank, as OutputSink::write() does.
  void write(int rank, proto::OutputStream stream, std::string_view bytes, FoldTime at);
  // The rank writes no more. Other ranks may still join its lines. If it writes again, a new attempt of the job began.
  void end_rank(int rank);
  // Shows lines whose window is over.
  void advance(FoldTime at);
  // Shows all that waits.
  void drain();

  // Returns when the next window is over; nullopt if nothing waits.
  std::optional<base::MonotonicTime> due() const;

 private:
  struct Group;
  using Groups = std::list<Group>;
  // Groups of equal text, oldest first. Those before `first` were shown. They are removed many at a time, because a
  // rank may repeat one text thousands of times.
  struct Same {
    std::vector<Group*> groups{};
    std::size_t first = 0;
  };
  using Texts = std::unordered_map<std::string, Same>;
  struct Group {
    std::vector<int> ranks{};  // the first is the one whose text is shown
    proto::OutputStream stream = proto::OutputStream::kStdout;
    Texts::value_type* entry = nullptr;
    std::string own_text{};        // set if the key of `entry` is not the text itself
    bool has_rank_prefix = false;  // each line began with "[rankN]: ", which is left out of the text
    base::MonotonicTime due{};
    base::WallTime stamp{};
    std::uint64_t level = 0;  // 0 while the group has a single rank
    std::uint64_t place = 0;  // its number in the chain of its first rank
    std::size_t running = 0;  // how many of its ranks have not ended
    Groups::iterator self{};
  };
  struct StreamState {
    bool is_open = false;  // the last byte did not end a line
    TracebackBlock block{};
    bool has_rank_prefix = false;  // of the block's lines
    base::MonotonicTime due{};     // of the block
    base::WallTime stamp{};
  };
  struct Rank {
    std::deque<Group*> chain{};
    std::uint64_t shown = 0;         // number of groups that have left the chain
    std::uint64_t floor = 0;         // the highest level in which this rank ever was
    std::uint64_t after_shared = 0;  // the place after the last group of several ranks in its chain
    bool is_ended = false;
    std::array<StreamState, 2> streams{};
  };
  struct Line {
    std::string_view text;
    bool has_rank_prefix = false;
    base::MonotonicTime due{};
    base::WallTime stamp{};
  };

  Rank& rank_of(int rank);
  void revive(Rank& state);
  void add_line(int rank, proto::OutputStream stream, std::string_view line, FoldTime at);
  void add(int rank, proto::OutputStream stream, const Line& line);
  void add_group(int rank, proto::OutputStream stream, const Line& line, Texts::value_type* entry);
  void pass(int rank, proto::OutputStream stream, std::string_view bytes, FoldTime at);
  bool take_into_block(int rank, proto::OutputStream stream, const Line& line);
  void close_block(int rank, proto::OutputStream stream);
  Group* find_group(int rank, Rank& state, const Same& same);
  std::uint64_t level_to_join(int rank, const Rank& state, const Group& group);
  void join(int rank, Rank& state, Group* group, std::uint64_t level);
  void show_if_whole(Group* group);
  void show(Group* group);
  void emit(Group* group);
  void forget(const Group* group);
  void keep_bounds();
  std::size_t cost(const Group& group) const;
  void make_key(proto::OutputStream stream, const Line& line);

  const FoldOptions options_;
  const Show show_;
  Groups groups_;  // by `due`
  Texts texts_;
  std::unordered_map<int, Rank> ranks_;
  std::set<std::pair<base::MonotonicTime, std::pair<int, proto::OutputStream>>> blocks_;  // open blocks
  std::size_t running_ = 0;  // how many ranks have not ended
  bool are_ranks_known_ = false;
  std::size_t bytes_ = 0;  // of groups and blocks
  std::string key_;        // reused
};

}  // namespace muster::launcherd::output
