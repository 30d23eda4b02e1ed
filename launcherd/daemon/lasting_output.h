// The output of a job of launcherd: what its journal cannot take is missing in it and told once, and the job runs on;
// what the disk has taken and lost is told as well. One thread at a time, as OutputSink says; gone() from any.
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

class LastingOutput final : public OutputSink {
 public:
  // `on_failure`: from the thread that writes.
  LastingOutput(std::unique_ptr<JournalSink> journal, std::function<void(const base::Status&)> on_failure)
      : journal_(std::move(journal)), on_failure_(std::move(on_failure)), gone_(journal_->past().gone) {}

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    return told(journal_->write(rank, stream, bytes, flags));
  }
  base::Status end_rank(int rank) override { return told(journal_->end_rank(rank)); }
  void begin_attempt(int attempt) override { journal_->begin_attempt(attempt); }
  void frame(int agent, std::uint64_t sequence) override { journal_->frame(agent, sequence); }
  base::Status lost(std::uint64_t bytes, const std::string& host) override {
    {
      const std::lock_guard lock(mutex_);
      gone_[host] += bytes;
    }
    on_failure_(base::error(base::Code::kDataLoss, "{} bytes of {}, which this machine's disk had taken and lost",
                            bytes, host));
    return told(journal_->lost(bytes, host));
  }
  base::Status end_agent(int agent) override { return told(journal_->end_agent(agent)); }
  base::Status flush() override { return told(journal_->flush()); }

  const JournalPast& past() const { return journal_->past(); }
  // By host: bytes of its ranks that the disk had taken and lost.
  std::map<std::string, std::uint64_t> gone() const {
    const std::lock_guard lock(mutex_);
    return gone_;
  }

 private:
  // The journal reports a failure once.
  base::Status told(const base::Status& status) {
    if (!status.ok()) on_failure_(status);
    return base::ok_status();
  }

  const std::unique_ptr<JournalSink> journal_;
  const std::function<void(const base::Status&)> on_failure_;
  mutable std::mutex mutex_;  // guards the one below
  std::map<std::string, std::uint64_t> gone_;
};

}  // namespace muster::launcherd::daemon
