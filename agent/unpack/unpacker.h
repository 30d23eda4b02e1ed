// Unpacker decompresses an agent that arrives in pieces of one Zstandard frame, into a HashedFile.
// The input may be damaged or forged. Memory stays below 16 MiB, and no more than the announced size is written.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "agent/unpack/hashed_file.h"

struct ZSTD_DCtx_s;

namespace muster::agent::inline unpack {

class Unpacker {
 public:
  explicit Unpacker(HashedFile& file);  // `file` must outlive this object

  Problem add(std::string_view packed);
  Problem check_end() const;  // fails unless the frame is complete

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  HashedFile& file_;
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  std::vector<char> piece_;
  bool is_complete_ = false;
};

}  // namespace muster::agent::unpack
