// JournalSink writes the output of a job of launcherd to one append-only file (journal_file.h). The file outlives
// launcherd.
//
// Thread: one at a time, as for every OutputSink.
// Durability: the kernel has the bytes that write() accepted. They survive a kill -9 of launcherd, so the hub may
// acknowledge them to the agent. They may be lost if the host crashes, because the sink does not sync. The agent knows
// how many bytes such a crash lost (see OutputSink::lost).
// Errors: if the disk accepts no more, the sink does not block ranks. It drops and counts the lines, and reports the
// first failure: RESOURCE_EXHAUSTED if the disk is full, else the disk's own code. For each agent a record says how
// many bytes are missing and up to which frame. So readers can report the loss, and a restarted launcherd requests the
// right frames. These records, and the ends of ranks and agents, use reserved space (kReserve). Once space is free
// again, the sink stores lines again. After a failed write, it cuts off the incomplete record at once.
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

// The contents of the file's newest attempt at the time of opening.
struct JournalPast {
  int attempt = 0;
  std::map<int, std::uint64_t> last_delivered;  // last frame in the file, by agent
  // Bytes of the agent's ranks that the file contains or records as missing, by agent.
  std::map<int, std::uint64_t> delivered_bytes;
  // Bytes that an earlier launcherd had written and that are lost, by host.
  std::map<std::string, std::uint64_t> gone;
  std::set<int> ended_ranks;
  std::set<int> finished_agents;
  std::uint64_t bytes = 0;  // size of the whole file
  // One sentence about invalid bytes that were moved away. Empty if the file had none.
  std::string damage;
};

class JournalSink final : public OutputSink {
 public:
  // Reports to readers that they may read the file up to byte `readable`. open() and flush() call it on their thread.
  using OnFlush = std::function<void(std::uint64_t readable)>;

  // Creates the file (0600) or continues it. Removes a last record that a killed launcherd wrote only in part. If the
  // file is damaged elsewhere, moves everything from the damage on to `path`.damaged, and past().damage reports it.
  // The file then counts as one that lost its end, so agents report how many bytes are missing.
  static base::Result<std::unique_ptr<JournalSink>> open(const std::string& path, const base::Clock* clock,
                                                         OnFlush on_flush = {});
  ~JournalSink() override;  // frees the reserved space

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
    std::uint64_t bytes = 0;          // bytes missing so far
    std::uint64_t sequence = 0;       // sequence of the last missing frame
    std::optional<std::uint64_t> at;  // offset of the kLost record; nullopt before there was room for it
  };

  JournalSink(std::string path, base::UniqueFd fd, const base::Clock* clock, OnFlush on_flush)
      : path_(std::move(path)), fd_(std::move(fd)), clock_(clock), on_flush_(std::move(on_flush)) {}

  base::Status read_past();
  void move_damage(std::uint64_t begin, const base::Status& why);
  JournalHeader header(JournalKind kind, int rank) const;
  base::Status append(JournalHeader header, std::string_view payload);
  base::Status put(const JournalHeader& header, std::string_view payload, std::uint64_t at);
  base::Status reserve_space(std::uint64_t size);
  int allocate(std::uint64_t end);
  base::Status cut_off();
  base::Status put_lost(int agent, Lost* lost);
  base::Status settle_lost();
  base::Status once(base::Status failure);
  void publish_size();

  const std::string path_;
  const base::UniqueFd fd_;
  const base::Clock* const clock_;
  const OnFlush on_flush_;
  JournalPast past_;

  bool is_open_ = false;  // true if this object may write the file
  int agent_ = 0;         // from frame()
  std::uint64_t sequence_ = 0;
  std::uint64_t size_ = 0;       // size of all whole records
  std::uint64_t reserved_ = 0;   // the disk has reserved space up to here
  std::uint64_t published_ = 0;  // the last value passed to on_flush_
  bool can_reserve_ = true;
  bool has_torn_end_ = false;  // true while bytes behind size_ wait to be cut off
  bool has_reported_failure_ = false;
  // Losses by agent since the disk became full or failed. The kLost records of these losses may still change.
  std::map<int, Lost> lost_;
};

}  // namespace muster::launcherd::output
