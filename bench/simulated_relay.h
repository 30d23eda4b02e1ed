// A relay between simulated agents and launcherd: the real protocol of relays towards launcherd (proto/relay_frame.h),
// and channels in memory towards the agents. A real relay has a TCP connection to each agent instead.
//
// Thread: the loop thread of the agents.
#pragma once

#include <cstdint>
#include <memory>

#include "base/byte_channel.h"
#include "base/loop.h"

namespace muster::bench {

class SimulatedRelay {
 public:
  SimulatedRelay(base::Loop& loop, std::uint16_t launcherd_port);
  ~SimulatedRelay();

  // Opens a stream to launcherd, and first the connection if there is none. `on_ready` is called on the loop when the
  // channel has bytes to read, accepts bytes again, or has ended. nullptr: launcherd cannot be reached now.
  std::unique_ptr<base::ByteChannel> open(base::Loop::Task on_ready);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::bench
