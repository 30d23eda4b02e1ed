#include "collectives/device/stream_gate.h"

#include <cstring>

namespace muster::collectives::device {

base::Result<std::shared_ptr<StreamGate>> StreamGate::make(const std::shared_ptr<const Gpu>& gpu) {
  std::shared_ptr<StreamGate> gate(new StreamGate(gpu));
  MUSTER_ASSIGN_OR_RETURN(gate->words_, allocate_pinned(gpu, kWords * sizeof(std::uint32_t)));
  std::memset(gate->words_.get(), 0, kWords * sizeof(std::uint32_t));
  return gate;
}

base::Result<std::shared_ptr<StreamGate::Hold>> StreamGate::hold(void* stream) {
  std::uint32_t number = last_.fetch_add(1) + 1;
  for (std::uint32_t tried = 1; is_used_[number % kWords].exchange(true); ++tried) {
    if (tried == kWords) {
      return base::resource_exhausted("{} operations on streams are in progress: wait for some of them", kWords);
    }
    number = last_.fetch_add(1) + 1;
  }
  auto made = std::make_shared<Hold>(shared_from_this(), number);
  MUSTER_RETURN_IF_ERROR(gpu_->call("the caller's stream (cuStreamWaitValue32)", gpu_->api().stream_wait_value, stream,
                                    address_of(&static_cast<std::uint32_t*>(words_.get())[number % kWords]), number,
                                    kWaitValueAtLeast));
  return made;
}

// After a failed operation the device may write its word later. If another hold used the word by then, that write would
// revert the value that releases its stream. So a word that the device will still write is not used again.
StreamGate::Hold::~Hold() {
  const bool is_still_written = is_behind_ && gate_->word(number_).load() != number_;
  gate_->word(number_).store(number_);
  if (!is_still_written) gate_->is_used_[number_ % kWords].store(false);
}

base::Status StreamGate::Hold::release_behind(void* stream) {
  is_behind_ = true;
  const auto address = address_of(&static_cast<std::uint32_t*>(gate_->words_.get())[number_ % kWords]);
  return gate_->gpu_->call("cuStreamWriteValue32", gate_->gpu_->api().stream_write_value, stream, address, number_, 0U);
}

}  // namespace muster::collectives::device
