#include "cli/check_build.h"

#include <fmt/format.h>

namespace muster::cli {

BuildFeatures this_build() {
  BuildFeatures features;
  // Horovod's Gloo controller is served (rendezvous/horovod_server.h). Only frameworks whose programs the end-to-end
  // tests run: torch's own, and Horovod's for torch.
  features.gloo = true;
  features.pytorch = true;
  return features;
}

std::string format_build(const BuildFeatures& features, bool verbose) {
  const auto box = [](bool has, const char* name) { return fmt::format("    [{}] {}\n", has ? 'X' : ' ', name); };
  std::string text = verbose ? "\n" : "";
  text += fmt::format("Muster v{}:\n\nAvailable Frameworks:\n", MUSTER_VERSION);
  text += box(features.tensorflow, "TensorFlow") + box(features.pytorch, "PyTorch") + box(features.mxnet, "MXNet");
  text += "\nAvailable Controllers:\n";
  text += box(features.mpi, "MPI") + box(features.gloo, "Gloo");
  text += "\nAvailable Tensor Operations:\n";
  text += box(features.nccl_operations, "NCCL") + box(false, "DDL") + box(false, "CCL");
  text += box(features.mpi_operations, "MPI") + box(features.gloo_operations, "Gloo");
  return text;
}

}  // namespace muster::cli
