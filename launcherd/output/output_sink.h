// Where the output of ranks goes: console, files, a journal, several of them. One thread (the hub's) calls a sink.
//
// A sink reports a failed destination once and from then on drops what would go there, so that ranks are not blocked by
// a full disk while the job is being stopped. Codes that callers act on: CANCELLED = nobody reads stdout any more
// (EPIPE; exit code 141); RESOURCE_EXHAUSTED = disk full.
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

  // Lines of one rank in their order; flags as in proto/output_frame.h. May block (console), but ends when cancelled.
  virtual base::Status write(int rank, proto::OutputStream stream, std::string_view bytes, std::uint8_t flags) = 0;
  // The rank sends no more: an unfinished line is finished where the destination wants that.
  virtual base::Status end_rank(int rank) = 0;
  // What only a sink that continues after a restart of its launcher wants to know. A new attempt of the job begins:
  // agents number their frames anew.
  virtual void begin_attempt(int /*attempt*/) {}
  // The calls up to the next frame() are of this numbered frame of an agent; each frame comes once, in its order.
  virtual void frame(int /*agent*/, std::uint64_t /*sequence*/) {}
  // `bytes` of the ranks of the agent on `host`, in frames up to that of frame(), were taken by a launcher before this
  // one, but this sink does not have them, and nobody else has.
  virtual base::Status lost(std::uint64_t /*bytes*/, const std::string& /*host*/) { return base::ok_status(); }
  // No rank of the agent sends any more.
  virtual base::Status end_agent(int /*agent*/) { return base::ok_status(); }
  // Everything written so far is handed to the destination. Called whenever there is nothing more to do at once.
  virtual base::Status flush() = 0;
};

}  // namespace muster::launcherd::output
