// Writes the output of a job of launcherd to its journal. If the journal cannot store output, this class reports the
// failure once, and the job continues without that output. It also reports output that the disk confirmed but lost
// later.
//
// Owner: RunningJob.
// Thread: one thread at a time (OutputSink). Any thread may call lost_bytes().
// Errors: no write returns an error, because the job must continue.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "launcherd/output/journal_sink.h"
#include "launcherd/output/output_sink.h"

namespace muster::launcherd::inline daemon {

class JournalOutput final : public OutputSink {
 public:
  // `on_failure` is called on the writing thread.
  JournalOutput(std::unique_ptr<JournalSink> journal, std::function<void(const base::Status&)> on_failure)
      : journal_(std::move(journal)), on_failure_(std::move(on_failure)), lost_bytes_(journal_->past().gone) {}

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    return report(journal_->write(rank, stream, bytes, flags));
  }
  base::Status end_rank(int rank) override { return report(journal_->end_rank(rank)); }
  void begin_attempt(int attempt) override { journal_->begin_attempt(attempt); }
  void frame(int agent, std::uint64_t sequence) override { journal_->frame(agent, sequence); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override {
    {
      const std::lock_guard lock(mutex_);
      lost_bytes_[host] += bytes;
    }
    on_failure_(base::data_loss("{} bytes from {}: this machine's disk confirmed the write and lost it", bytes, host));
    return report(journal_->lost(bytes, host));
  }
  base::Status end_agent(int agent) override { return report(journal_->end_agent(agent)); }
  base::Status flush() override { return report(journal_->flush()); }

  const JournalPast& past() const { return journal_->past(); }
  // Returns for each host how many bytes of its ranks the disk had confirmed and lost.
  std::map<std::string, std::uint64_t> lost_bytes() const {
    const std::lock_guard lock(mutex_);
    return lost_bytes_;
  }

 private:
  // Reports the failure instead of returning it. The journal reports each failure only once.
  base::Status report(const base::Status& status) {
    if (!status.ok()) on_failure_(status);
    return base::ok_status();
  }

  const std::unique_ptr<JournalSink> journal_;
  const std::function<void(const base::Status&)> on_failure_;
  mutable std::mutex mutex_;  // guards lost_bytes_
  std::map<std::string, std::uint64_t> lost_bytes_;
};

}  // namespace muster::launcherd::daemon
