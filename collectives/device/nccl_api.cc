#include "collectives/device/nccl_api.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "base/env.h"
#include "collectives/device/library.h"

namespace muster::collectives::device {
namespace {

constexpr int kFirstSplit = 22005;

// NCCL writes its log, including that of its RAS subsystem, to the C library's stdout. If stdout is a pipe to a
// launcher, lines stay in the buffer. A killed process then loses its last lines, which would say why it failed. So set
// line buffering, which NCCL's own log files have. Do not set NCCL_DEBUG_FILE to /dev/stderr: NCCL reopens that name,
// which truncates a file behind the program's stderr.
void set_line_buffering() {
  if (base::env_var("NCCL_DEBUG").value_or("").empty()) return;
  if (!base::env_var("NCCL_DEBUG_FILE").value_or("").empty()) return;
  (void)std::setvbuf(stdout, nullptr, _IOLBF, 0);  // glibc allows it at any time
}

}  // namespace

base::Result<std::shared_ptr<const NcclApi>> NcclApi::load() {
  MUSTER_ASSIGN_OR_RETURN(const Library nccl, Library::open("libnccl.so.2"));
  set_line_buffering();
  auto api = std::make_shared<NcclApi>();
  MUSTER_RETURN_IF_ERROR(nccl.find("ncclGetErrorString", api->get_error_string));
  MUSTER_RETURN_IF_ERROR(nccl.find("ncclGetLastError", api->get_last_error));
#define MUSTER_NCCL_FIND(member, symbol, parameters) MUSTER_RETURN_IF_ERROR(nccl.find(#symbol, api->member));
  MUSTER_NCCL_FUNCTIONS(MUSTER_NCCL_FIND)
#undef MUSTER_NCCL_FIND
  MUSTER_RETURN_IF_ERROR(api->check(api->get_version(&api->version), "ncclGetVersion"));
  if (api->version < kFirstSplit || !nccl.find("ncclCommSplit", api->split).ok()) api->split = nullptr;
  return std::shared_ptr<const NcclApi>(std::move(api));
}

// If split() shares resources, the new communicator uses its parent's abort flag. So freeing one of them ends the
// other.
bool NcclApi::splits() const {
  const std::string shares = base::env_var("NCCL_COMM_SPLIT_SHARE_RESOURCES").value_or("");
  return split != nullptr && (shares.empty() || shares == "0");
}

base::Status NcclApi::check(NcclResult result, const char* what) const {
  // Communicators do not block; get_async_error reports their progress.
  if (result == kNcclSuccess || result == kNcclInProgress) return base::ok_status();
  const char* const last = get_last_error(nullptr);
  const std::string_view words(last == nullptr ? "" : last, last == nullptr ? 0 : strnlen(last, 1023));
  return base::internal_error("{}: {}{}{} (NCCL error {}; NCCL_DEBUG=WARN shows more)", what, get_error_string(result),
                              words.empty() ? "" : ": ", words, result);
}

int nccl_type(DType type) {
  switch (type) {
    case DType::kF16:
      return 6;
    case DType::kBF16:
      return 9;
    case DType::kF32:
      return 7;
    case DType::kF64:
      return 8;
    case DType::kI8:
      return 0;
    case DType::kU8:
    case DType::kBool:  // 0 and 1: see nccl_op()
      return 1;
    case DType::kI32:
      return 2;
    case DType::kI64:
      return 4;
    case DType::kI16:
      return -1;
  }
  return -1;
}

int nccl_op(DType type, RedOp op) {
  constexpr int kSum = 0;
  constexpr int kProd = 1;
  constexpr int kMax = 2;
  constexpr int kMin = 3;
  constexpr int kAvg = 4;
  if (nccl_type(type) < 0) return -1;
  if (type == DType::kBool) return op == RedOp::kSum || op == RedOp::kMax ? kMax : op == RedOp::kAvg ? -1 : kMin;
  const bool is_float = type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
  switch (op) {
    case RedOp::kSum:
      return kSum;
    case RedOp::kAvg:
      return is_float ? kAvg : -1;  // our average of integers truncates towards zero
    case RedOp::kMin:
      return kMin;
    case RedOp::kMax:
      return kMax;
    case RedOp::kProd:
      return kProd;
  }
  return -1;
}

}  // namespace muster::collectives::device
