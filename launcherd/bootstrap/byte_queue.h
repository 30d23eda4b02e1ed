// ByteQueue is a first-in-first-out queue of bytes in one contiguous piece of memory. The caller must limit its size.
#pragma once

#include <string>
#include <string_view>

namespace muster::launcherd::inline bootstrap {

class ByteQueue {
 public:
  void add(std::string_view bytes) { data_.append(bytes); }
  std::string_view front() const { return std::string_view(data_).substr(head_); }
  std::size_t size() const { return data_.size() - head_; }
  bool empty() const { return size() == 0; }
  void remove(std::size_t count) {
    head_ += count;
    if (head_ == data_.size()) {
      data_.clear();
      head_ = 0;
    } else if (head_ >= 64 * 1024 && head_ >= data_.size() / 2) {
      data_.erase(0, head_);
      head_ = 0;
    }
  }
  void clear() { remove(size()); }

 private:
  std::string data_;
  std::size_t head_ = 0;
};

}  // namespace muster::launcherd::bootstrap
