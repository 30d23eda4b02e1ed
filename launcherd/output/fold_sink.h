// FoldSink shows equal lines of several ranks as one line of a console, labelled as [0-7]<stdout>:. LineFold decides
// which lines. It stands directly before a ConsoleSink, so that files and logs keep each line.
//
// Owner: whoever owns the console; it must outlive the sink.
// Thread: one thread writes, as in output_sink.h. A thread of the sink shows lines whose window is over. It writes to
// the console, which may block, so it is not the loop's thread. set_ranks() and finish_blocking(): any thread; they do
// not wait for a blocked write.
// Errors: as in output_sink.h. If the sink's own thread meets an error, the next call returns it.
// Destruction: drops what waits, so call finish_blocking() first. Cancel the terminals before, or it may block.
//
// Example:
//   MUSTER_ASSIGN_OR_RETURN(auto fold, FoldSink::create(&console, &clock, {.folds = {true, true}}));
//   fold->set_ranks({0, 1, 2});
//   … fold->write(…) …
//   if (!fold->finish_blocking(deadline)) terminals.cancel();
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "launcherd/output/forwarding_sink.h"
#include "launcherd/output/line_fold.h"
#include "launcherd/output/sinks.h"

namespace muster::launcherd::inline output {

class FoldSink final : public ForwardingSink {
 public:
  struct Config {
    std::array<bool, 2> folds = {true, true};  // stdout, stderr; the other streams pass unchanged
    int raw_rank = -1;                         // as in ConsoleSinkOptions; its bytes pass unchanged
    FoldOptions options{};
  };
  // Borrows console and clock. The thread that writes also uses the clock. RESOURCE_EXHAUSTED if the system allows no
  // thread.
  static base::Result<std::unique_ptr<FoldSink>> create(ConsoleSink* console, const base::Clock* clock,
                                                        const Config& config);
  ~FoldSink() override;

  // Sets the ranks that write to the console, from the next output on. Empty means unknown.
  void set_ranks(const std::vector<int>& ranks);

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status finish() override;
  base::Status flush() override;

  // Shows all that waits. Returns false if the console does not take it before the deadline.
  bool finish_blocking(base::MonotonicTime deadline);

 private:
  FoldSink(ConsoleSink* console, const base::Clock* clock, const Config& config);
  bool passes(int rank, proto::OutputStream stream) const;
  void show(const FoldedText& text);
  base::Status take_failure(base::Status status);
  void take_ranks();
  void set_timer();
  void run();
  void show_due(bool all);

  ConsoleSink* const console_;
  const base::Clock* const clock_;
  const Config config_;

  std::mutex mutex_;  // guards the next five members and the console; held while the console blocks
  LineFold fold_;
  base::Status failure_;       // the first one that no call has returned
  std::vector<int> labelled_;  // the ranks of label_
  std::string label_;

  std::mutex timer_mutex_;  // guards the next five members; never held while a write blocks
  std::condition_variable timer_changed_;
  std::optional<std::vector<int>> new_ranks_;
  std::optional<base::MonotonicTime> due_;
  bool is_finishing_ = false;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace muster::launcherd::output
