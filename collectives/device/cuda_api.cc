#include "collectives/device/cuda_api.h"

#include "collectives/device/library.h"

namespace muster::collectives::device {
namespace {

constexpr CudaResult kCudaOutOfMemory = 2;

}  // namespace

base::Result<std::shared_ptr<const CudaApi>> CudaApi::load() {
  MUSTER_ASSIGN_OR_RETURN(const Library driver, Library::open("libcuda.so.1"));
  auto api = std::make_shared<CudaApi>();
#define MUSTER_CUDA_FIND(member, symbol, parameters) MUSTER_RETURN_IF_ERROR(driver.find(#symbol, api->member));
  MUSTER_CUDA_FUNCTIONS(MUSTER_CUDA_FIND)
#undef MUSTER_CUDA_FIND
  (void)driver.find("cuThreadExchangeStreamCaptureMode", api->exchange_capture_mode);
  MUSTER_RETURN_IF_ERROR(api->check(api->init(0), "the CUDA driver does not start (cuInit)"));
  return std::shared_ptr<const CudaApi>(std::move(api));
}

base::Status CudaApi::check(CudaResult result, const char* what) const {
  if (result == kCudaSuccess) return base::ok_status();
  const char* text = nullptr;
  if (get_error_string(result, &text) != kCudaSuccess || text == nullptr) text = "an unknown error";
  const auto code = result == kCudaOutOfMemory ? base::Code::kResourceExhausted : base::Code::kInternal;
  return base::error(code, "{}: {} (CUDA error {})", what, text, result);
}

}  // namespace muster::collectives::device
