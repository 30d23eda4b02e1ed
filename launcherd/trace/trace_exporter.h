// Sends spans to a collector of OpenTelemetry, on a thread of its own. No job waits for it.
//
// At most kMostSpans spans wait. Requests that may succeed later are repeated, with growing pauses, for at most
// Pauses::give_up. Spans that cannot be sent are dropped. The first loss is reported by one warning; after a success
// the next loss is, too.
//
// Owner: hvdrun's main, or Daemon.
// Thread: any thread calls add(). Its own thread calls Events::warn.
// Destruction: as stop(kFlushTime).
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/trace/otlp_message.h"
#include "launcherd/trace/span_sender.h"
#include "launcherd/trace/trace_span.h"

namespace muster::launcherd::inline trace {

class TraceExporter {
 public:
  static constexpr std::size_t kMostSpans = 20'000;
  static constexpr std::size_t kSpansOfRequest = 512;
  // At the end of the process the spans that wait get this long.
  static constexpr std::chrono::milliseconds kFlushTime{2'000};

  // The pauses of a test may be shorter.
  struct Pauses {
    std::chrono::milliseconds gather{1'000};  // spans of this time go out in one request
    std::chrono::milliseconds first_retry{1'000};
    std::chrono::milliseconds longest_retry{30'000};  // also the longest Retry-After
    std::chrono::milliseconds give_up{60'000};        // from the first try of a request
  };

  // INVALID_ARGUMENT: certificates cannot be used. RESOURCE_EXHAUSTED: no thread can be started.
  static base::Result<std::unique_ptr<TraceExporter>> start(OtlpOptions options, TraceSource source,
                                                            std::function<void(const std::string&)> warn,
                                                            Pauses pauses);
  static base::Result<std::unique_ptr<TraceExporter>> start(OtlpOptions options, TraceSource source,
                                                            std::function<void(const std::string&)> warn) {
    return start(std::move(options), std::move(source), std::move(warn), Pauses());
  }
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  void add(TraceSpan span);
  // Sends what waits, without pauses, for at most `time`. Drops the rest. Call it once; add() does nothing afterwards.
  void stop(std::chrono::milliseconds time);

  const TraceSampling& sampling() const { return options_.sampling; }

 private:
  enum class Sent { kDone, kBusy, kUnreachable, kLost };  // another try may help after kBusy and kUnreachable

  TraceExporter(OtlpOptions options, TraceSource source, std::function<void(const std::string&)> warn, Pauses pauses,
                std::unique_ptr<SpanSender> sender);
  void run();
  void deliver(const std::vector<TraceSpan>& spans);
  // Sends once. `why` says why it failed, `pause` what Retry-After asks for.
  Sent send(const std::string& body, std::size_t spans, std::string& why, std::chrono::milliseconds& pause);
  // Returns whether another try may follow. At the end of the process only a busy collector gets one.
  bool wait_for(std::chrono::milliseconds time, Sent why);
  void lose(std::size_t spans, const std::string& why);

  const OtlpOptions options_;
  const TraceSource source_;
  const std::function<void(const std::string&)> warn_;
  const Pauses pauses_;
  const std::unique_ptr<SpanSender> sender_;
  CancelSource cancel_;
  bool has_warned_ = false;  // since the last success; used on the thread only

  std::mutex mutex_;  // guards the next five members
  std::condition_variable changed_;
  std::deque<TraceSpan> waiting_;
  std::size_t refused_ = 0;  // spans that did not fit
  bool is_stopping_ = false;
  base::MonotonicTime stop_at_{};  // set with is_stopping_
  bool is_over_ = false;
  std::thread thread_;  // last member, because it uses the others
};

}  // namespace muster::launcherd::trace
