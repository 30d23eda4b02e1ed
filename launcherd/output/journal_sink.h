// The output of a job under launcherd, in one append-only file (journal_file.h) that outlives its launcherd.
//
// What write() has taken is in the kernel when it returns, so it survives a kill -9 of launcherd and may be
// acknowledged to the agent (not a crash of the host: nothing is synced; how much that cost the agent knows, see
// OutputSink::lost). One thread at a time, as OutputSink says.
//
// A disk that takes no more: ranks are not held back. The lines that come then are dropped and counted, the first time
// with RESOURCE_EXHAUSTED (another error of the disk: its own code); a record in the file says for each agent how many
// bytes are missing and up to which frame, so that readers tell it to people and a restarted launcherd still asks the
// agents for the right frames. That, and the ends of ranks and agents, have room that was set aside before (kReserve).
// When there is room again, lines are kept again. A record that was written in part is cut off at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/output/journal_file.h"
#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline output {

// What the file held when it was opened, of its newest attempt.
struct JournalPast {
  int attempt = 0;
  std::map<int, std::uint64_t> last_taken;  // by agent: its last frame that is in the file
  // By agent: of its ranks, bytes that are in the file and that the file says are missing.
  std::map<int, std::uint64_t> taken_bytes;
  std::map<std::string, std::uint64_t> gone;  // by host: bytes that an earlier launcherd had written, and lost
  std::set<int> ended_ranks;
  std::set<int> finished_agents;
  std::uint64_t bytes = 0;  // of the whole file
  std::string damage;       // not empty: one sentence about bytes that were no records and were set apart
};

class JournalSink final : public OutputSink {
 public:
  // Readers may read the file up to this byte. Called by open() and with every flush(), on the thread that calls them.
  using OnFlush = std::function<void(std::uint64_t readable)>;

  // Makes the file (0600) or continues it; a record that a killed launcherd has cut short is removed. If the file is
  // damaged elsewhere, all from the damage on is moved to `path`.damaged, and past().damage reports it. The file then
  // counts as one that lost its end: agents report how many bytes are missing.
  static base::Result<std::unique_ptr<JournalSink>> open(const std::string& path, const base::Clock* clock,
                                                         OnFlush on_flush = {});
  ~JournalSink() override;  // gives back the room that was set aside

  const JournalPast& past() const { return past_; }

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override;
  base::Status end_rank(int rank) override;
  base::Status flush() override;
  void begin_attempt(int attempt) override;
  void frame(int agent, std::uint64_t sequence) override;
  base::Status lost(std::uint64_t bytes, const std::string& host) override;
  base::Status end_agent(int agent) override;

  static constexpr std::uint64_t kReserve = 1 << 20;

 private:
  struct Lost {
    std::uint64_t bytes = 0;          // so far
    std::uint64_t sequence = 0;       // of the last frame that is missing
    std::optional<std::uint64_t> at;  // offset of the record that says so, once there was room for it
  };

  JournalSink(std::string path, base::UniqueFd fd, const base::Clock* clock, OnFlush on_flush)
      : path_(std::move(path)), fd_(std::move(fd)), clock_(clock), on_flush_(std::move(on_flush)) {}

  base::Status read_past();
  void set_apart(std::uint64_t begin, const base::Status& why);
  JournalHeader header(JournalKind kind, int rank) const;
  base::Status append(JournalHeader header, std::string_view payload);
  base::Status put(const JournalHeader& header, std::string_view payload, std::uint64_t at);
  base::Status set_aside(std::uint64_t size);
  int allocate(std::uint64_t end);
  base::Status cut_off();
  base::Status put_lost(int agent, Lost* lost);
  base::Status settle_lost();
  base::Status once(base::Status failure);
  void tell_readers();

  const std::string path_;
  const base::UniqueFd fd_;
  const base::Clock* const clock_;
  const OnFlush on_flush_;
  JournalPast past_;

  bool is_open_ = false;  // the file is ours to write
  int agent_ = 0;         // of frame()
  std::uint64_t sequence_ = 0;
  std::uint64_t size_ = 0;       // of whole records
  std::uint64_t set_aside_ = 0;  // the disk has room for the file up to here
  std::uint64_t told_ = 0;       // to on_flush_
  bool can_set_aside_ = true;
  bool has_torn_end_ = false;  // there are bytes behind size_ that could not be cut off yet
  bool has_told_failure_ = false;
  std::map<int, Lost> lost_;  // by agent, since the disk takes no more; their records still change
};

}  // namespace muster::launcherd::output
