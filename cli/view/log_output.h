// Shows chunks of a job's log as the console does, through the sinks that hvdrun uses.
// Thread: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "launcherd/output/output_sink.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

base::WallTime wall_time_of(const google::protobuf::Timestamp& stamp);

// A clock that returns the time at which the shown chunk reached the launcher, for -prefix-timestamp.
class ChunkClock final : public base::Clock {
 public:
  base::MonotonicTime now() const override { return std::chrono::steady_clock::now(); }
  base::WallTime wall() const override { return wall_; }
  void set(base::WallTime wall) { wall_ = wall; }

 private:
  base::WallTime wall_{};
};

class LogOutput {
 public:
  // Borrows all. `clock` may be nullptr. `on_notice` gets a line if output is missing.
  LogOutput(launcherd::OutputSink* sink, ChunkClock* clock, std::function<void(const std::string&)> on_notice)
      : sink_(sink), clock_(clock), on_notice_(std::move(on_notice)) {}

  // Writes the chunk and flushes it. Errors are those of the sink.
  base::Status show(const v1::LogChunk& chunk);
  // Shows what the sink holds back. Call it when no more chunks come.
  base::Status finish() { return sink_->finish(); }
  // Returns text such as "512 bytes of the output of n2 are lost: …", for the part that was shown. Empty if launcherd's
  // disk lost nothing.
  std::string what_is_gone() const;

 private:
  launcherd::OutputSink* const sink_;
  ChunkClock* const clock_;
  const std::function<void(const std::string&)> on_notice_;
  std::map<std::string, std::uint64_t> gone_;  // lost bytes by host
};

}  // namespace muster::cli::view
