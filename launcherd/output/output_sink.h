// OutputSink is a destination for the output of ranks: console, files, a journal, or several of them.
// Thread: one thread (the hub's) calls a sink.
//
// Errors: a sink reports a failed destination once, and drops later output for it. So a full disk does not block ranks
// while the job is being stopped. Callers handle two codes. CANCELLED means that stdout has no reader (EPIPE; exit code
// 141). RESOURCE_EXHAUSTED means that the disk is full.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "proto/output_frame.h"

namespace muster::launcherd::inline output {

class OutputSink {
 public:
  virtual ~OutputSink() = default;

  // Writes lines of one rank in order. Flags are as in proto/output_frame.h. May block (console), but returns when it
  // is cancelled.
  virtual base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) = 0;
  // Called when the rank sends no more. The sink completes an unfinished line if the destination needs that.
  virtual base::Status end_rank(int rank) = 0;
  // Called when a new attempt of the job begins, in which agents restart their frame numbers. Only sinks that continue
  // after a restart of their launcher need this call and the next three.
  virtual void begin_attempt(int /*attempt*/) {}
  // Called before the calls for one numbered frame of an agent. Each frame comes once, in order.
  virtual void frame(int /*agent*/, std::uint64_t /*sequence*/) {}
  // Called if output is lost: an earlier launcher accepted `bytes` of output of the ranks on `host`, in frames up to
  // frame(). This sink lacks these bytes, and no other copy exists.
  virtual base::Status lost(std::uint64_t /*bytes*/, const std::string& /*host*/) { return base::ok_status(); }
  // Called when no rank of the agent sends more.
  virtual base::Status end_agent(int /*agent*/) { return base::ok_status(); }
  // Called when no more output comes. Shows what the sink holds back, and flushes.
  virtual base::Status finish() { return flush(); }
  // Hands everything written so far to the destination, except lines that the sink holds back. The hub calls it
  // whenever it has no further work.
  virtual base::Status flush() = 0;
};

}  // namespace muster::launcherd::output
