// Read run() first, then deliver() and send().
#include "launcherd/trace/trace_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "base/thread.h"

namespace muster::launcherd::inline trace {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

TraceExporter::TraceExporter(OtlpOptions options, TraceSource source, std::function<void(const std::string&)> warn,
                             Pauses pauses, std::unique_ptr<SpanSender> sender)
    : options_(std::move(options)),
      source_(std::move(source)),
      warn_(std::move(warn)),
      pauses_(pauses),
      sender_(std::move(sender)) {}

base::Result<std::unique_ptr<TraceExporter>> TraceExporter::start(OtlpOptions options, TraceSource source,
                                                                  std::function<void(const std::string&)> warn,
                                                                  Pauses pauses) {
  MUSTER_ASSIGN_OR_RETURN(auto sender, make_span_sender(options));
  std::unique_ptr<TraceExporter> exporter(
      new TraceExporter(std::move(options), std::move(source), std::move(warn), pauses, std::move(sender)));
  MUSTER_RETURN_IF_ERROR(exporter->cancel_.status());
  MUSTER_ASSIGN_OR_RETURN(exporter->thread_, base::start_thread([each = exporter.get()] { each->run(); }));
  return exporter;
}

TraceExporter::~TraceExporter() {
  stop(kFlushTime);
}

void TraceExporter::add(TraceSpan span) {
  const std::lock_guard lock(mutex_);
  if (is_stopping_) return;
  if (waiting_.size() >= kMostSpans) {
    ++refused_;
    return;
  }
  waiting_.push_back(std::move(span));
  if (waiting_.size() == 1 || waiting_.size() == kSpansOfRequest) changed_.notify_all();
}

void TraceExporter::stop(milliseconds time) {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    is_stopping_ = true;
    stop_at_ = steady_clock::now() + time;
    changed_.notify_all();
    changed_.wait_for(lock, time, [this] { return is_over_; });
  }
  cancel_.cancel();
  thread_.join();
}

void TraceExporter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_stopping_ || !waiting_.empty(); });
    changed_.wait_for(lock, pauses_.gather, [this] { return is_stopping_ || waiting_.size() >= kSpansOfRequest; });
    if (waiting_.empty()) break;  // only if it stops
    const auto count = static_cast<std::ptrdiff_t>(std::min(waiting_.size(), kSpansOfRequest));
    std::vector<TraceSpan> spans(std::make_move_iterator(waiting_.begin()),
                                 std::make_move_iterator(waiting_.begin() + count));
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
    const std::size_t refused = std::exchange(refused_, 0);
    lock.unlock();
    if (refused > 0) lose(refused, "too many spans wait for it");
    deliver(spans);
    lock.lock();
  }
  is_over_ = true;
  changed_.notify_all();
}

void TraceExporter::deliver(const std::vector<TraceSpan>& spans) {
  const std::string body = otlp_request(spans, options_, source_);
  const auto give_up_at = steady_clock::now() + pauses_.give_up;
  milliseconds pause = pauses_.first_retry;
  std::string why;
  for (;;) {
    milliseconds asked{0};
    const Sent sent = send(body, spans.size(), why, asked);
    if (sent == Sent::kDone) return;
    const milliseconds next = std::min(std::max(pause, asked), pauses_.longest_retry);
    if (sent == Sent::kLost || steady_clock::now() + next > give_up_at) break;
    if (!wait_for(next, sent)) break;
    pause *= 2;
  }
  lose(spans.size(), why);
}

TraceExporter::Sent TraceExporter::send(const std::string& body, std::size_t spans, std::string& why,
                                        milliseconds& pause) {
  const Waiter waiter{.cancel_fd = cancel_.fd(), .deadline = steady_clock::now() + options_.timeout};
  const auto reply = sender_->send(body, waiter);
  if (!reply.ok()) {
    const base::Code code = reply.status().code();
    why = code == base::Code::kCancelled ? "it did not answer before the end" : reply.status().message();
    const bool is_final = code == base::Code::kCancelled || code == base::Code::kUnauthenticated;
    return is_final ? Sent::kLost : Sent::kUnreachable;
  }
  if (reply->kind != SendReply::Kind::kAccepted) {
    why = reply->why;
    if (reply->retry_after) pause = *reply->retry_after;
    return reply->kind == SendReply::Kind::kBusy ? Sent::kBusy : Sent::kLost;
  }
  const auto answer = parse_otlp_answer(reply->body);
  if (answer.ok() && answer->rejected > 0) {
    lose(std::min(spans, static_cast<std::size_t>(answer->rejected)), "it refused them: " + answer->message);
  } else {
    has_warned_ = false;
  }
  return Sent::kDone;
}

bool TraceExporter::wait_for(milliseconds time, Sent why) {
  std::unique_lock lock(mutex_);
  if (!is_stopping_) {
    changed_.wait_for(lock, time, [this] { return is_stopping_; });
    return true;
  }
  if (why != Sent::kBusy || steady_clock::now() + time >= stop_at_) return false;
  lock.unlock();
  return Waiter{.cancel_fd = cancel_.fd(), .deadline = base::MonotonicTime::max()}.pause(time).ok();
}

void TraceExporter::lose(std::size_t spans, const std::string& why) {
  if (std::exchange(has_warned_, true)) return;
  warn_(fmt::format("{} of traces did not reach {}: {}", spans == 1 ? "1 span" : fmt::format("{} spans", spans),
                    options_.url.shown(), why));
}

}  // namespace muster::launcherd::trace
