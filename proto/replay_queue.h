// Delivers messages exactly once and in order over a stream that may be cut and opened again. It numbers sent messages,
// keeps them until the peer acknowledges them, and detects messages that were received before.
//
// Owner: each end of the stream has one.
// Thread: its owner's loop thread; not thread-safe.
//
// Message is a protobuf message with the uint64 fields `sequence` and `ack`. A sequence of 0 means unnumbered.
#pragma once

#include <cstdint>
#include <list>
#include <utility>

namespace muster::proto {

template <typename Message>
class ReplayQueue {
 public:
  // Numbers `message` and keeps a copy until the peer acknowledges it.
  const Message& push(Message message) {
    message.set_sequence(++last_sent_);
    pending_.push_back(std::move(message));
    return pending_.back();
  }

  void acknowledged(std::uint64_t sequence) {
    while (!pending_.empty() && pending_.front().sequence() <= sequence) pending_.pop_front();
  }

  std::uint64_t last_acknowledged() const { return last_sent_ - pending_.size(); }

  // Returns the messages to send again, in order, on a new stream.
  const std::list<Message>& pending() const { return pending_; }

  enum class Arrival { kNew, kDuplicate, kGap };
  // kGap: a message is missing, so end the stream. A peer that follows the protocol never causes a gap.
  Arrival arrived(std::uint64_t sequence) {
    if (sequence == 0) return Arrival::kNew;
    if (sequence <= last_received_) return Arrival::kDuplicate;
    if (sequence != last_received_ + 1) return Arrival::kGap;
    last_received_ = sequence;
    return Arrival::kNew;
  }

  std::uint64_t last_received() const { return last_received_; }

 private:
  std::list<Message> pending_;  // takes no memory while it is empty: a launcher has two queues for each agent
  std::uint64_t last_sent_ = 0;
  std::uint64_t last_received_ = 0;
};

}  // namespace muster::proto
