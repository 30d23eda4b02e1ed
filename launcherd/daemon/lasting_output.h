// The output of a job of launcherd: what its journal cannot take is missing in it and told once, and the job runs on.
// One thread at a time, as OutputSink says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "launcherd/output/journal_sink.h"
#include "launcherd/output/output_sink.h"

namespace muster::launcherd {

class LastingOutput final : public OutputSink {
 public:
  // `on_failure`: from the thread that writes.
  LastingOutput(std::unique_ptr<JournalSink> journal, std::function<void(const base::Status&)> on_failure)
      : journal_(std::move(journal)), on_failure_(std::move(on_failure)) {}

  base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) override {
    return told(journal_->write(rank, stream, bytes, flags));
  }
  base::Status end_rank(int rank) override { return told(journal_->end_rank(rank)); }
  void begin_attempt(int attempt) override { journal_->begin_attempt(attempt); }
  void frame(int agent, std::uint64_t sequence) override { journal_->frame(agent, sequence); }
  base::Status end_agent(int agent) override { return told(journal_->end_agent(agent)); }
  base::Status flush() override { return told(journal_->flush()); }

  const JournalPast& past() const { return journal_->past(); }

 private:
  // The journal reports a failure once.
  base::Status told(const base::Status& status) {
    if (!status.ok()) on_failure_(status);
    return base::ok_status();
  }

  const std::unique_ptr<JournalSink> journal_;
  const std::function<void(const base::Status&)> on_failure_;
};

}  // namespace muster::launcherd
