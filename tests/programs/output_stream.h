// The output of one rank of output_flood, line by line: the same bytes for the same rank at every call, so that
// output_check knows what must arrive. One line in 1,000 has 64 KiB, all others 1 to 200 bytes; they hold any byte,
// some are progress bars of '\r', some end in "\r\n"; the last has no newline.
#pragma once

#include <cstdint>
#include <string>

class OutputStream {
 public:
  OutputStream(unsigned rank, unsigned lines) : state_(0x9E3779B97F4A7C15ULL * (rank + 1)), lines_(lines) {}

  // The next line with its end; false after the last.
  bool next(std::string* line) {
    if (at_ == lines_) return false;
    constexpr unsigned kLongEvery = 1000;
    constexpr unsigned kLong = 64 * 1024;
    constexpr unsigned kShort = 200;
    constexpr unsigned kBarEvery = 50;
    const bool is_long = at_ % kLongEvery == kLongEvery / 2;
    const std::size_t size = is_long ? kLong : 1 + random() % kShort;
    line->resize(size);
    fill(line);
    const bool is_bar = at_ % kBarEvery == 1 && size > 1;
    if (is_bar) {
      for (std::size_t i = 0; i < size; i += 20) (*line)[i] = '\r';
    }
    if (++at_ < lines_) line->append(at_ % kBarEvery == 7 ? "\r\n" : "\n");
    return true;
  }

 private:
  std::uint64_t random() {  // xorshift64
    state_ ^= state_ << 13U;
    state_ ^= state_ >> 7U;
    state_ ^= state_ << 17U;
    return state_;
  }

  void fill(std::string* line) {
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < line->size(); ++i, bits >>= 8U) {
      if (i % 8 == 0) bits = random();
      const auto byte = static_cast<unsigned char>(bits);
      (*line)[i] = byte == '\n' || byte == '\r' ? ' ' : static_cast<char>(byte);
    }
  }

  std::uint64_t state_;
  unsigned lines_;
  unsigned at_ = 0;
};
