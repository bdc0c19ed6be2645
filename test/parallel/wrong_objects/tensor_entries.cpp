// Methods of tensors: views, writes, host reads, and what autograd does with them.

#include "runtime/autograd/autograd.h"
#include "test/parallel/wrong_objects/given.h"

namespace kernbench::test::wrong_objects {

std::vector<Entry> tensor_entries() {
  return {
      KB_ENTRY("numel", g.tensor().numel()),
      KB_ENTRY("size", g.tensor().size(g.dim())),
      KB_ENTRY("dtype", g.tensor().dtype()),
      KB_ENTRY("name", g.tensor().name()),
      KB_ENTRY("shards", g.tensor().shards()),
      KB_ENTRY("is_host", g.tensor().is_host()),
      KB_ENTRY("[]", g.tensor()[g.dim()]),
      KB_ENTRY("copy_", g.tensor().copy_(g.tensor())),
      KB_ENTRY("copy_shard_", g.tensor().copy_shard_(g.below(3), g.tensor())),
      KB_ENTRY("requires_grad_", g.tensor().detach().requires_grad_(g.flag())),
      KB_ENTRY("requires_grad", g.tensor().requires_grad()),
      KB_ENTRY("is_leaf", g.tensor().is_leaf()),
      KB_ENTRY("grad", g.tensor().grad()),
      KB_ENTRY("retain_grad", g.tensor().retain_grad()),
      KB_ENTRY("zero_grad", g.tensor().zero_grad()),
      KB_ENTRY("detach", g.tensor().detach()),
      KB_ENTRY("backward", g.tensor().backward(g.tensor(), true)),
      KB_ENTRY("backward of a sum", (g.tensor() * g.tensor()).sum().backward()),
      KB_ENTRY("mutable_grad",
               [&] {
                 const Tensor leaf = g.tensor().detach().requires_grad_();
                 leaf.mutable_grad() = g.tensor();
                 (leaf * 2).sum().backward();
               }()),
      KB_ENTRY("register_hook",
               [&] {
                 const Tensor leaf = g.tensor().detach().requires_grad_();
                 const Tensor y = leaf * 2;
                 const Tensor other = g.tensor();
                 (g.flag() ? leaf : y).register_hook([other](const Tensor&) { return other; });
                 y.backward(g.tensor());
               }()),
      KB_ENTRY("register_post_accumulate_grad_hook",
               g.tensor().detach().register_post_accumulate_grad_hook([](const Tensor&) {})),
      KB_ENTRY("remove_hook", g.tensor().remove_hook(static_cast<unsigned>(g.below(9)))),
      KB_ENTRY("autograd::record",
               [&] {
                 const Tensor other = g.tensor();
                 autograd::record("f", g.tensor().clone(), g.tensors(), [other](const Tensor&) {
                   return std::vector{other};
                 }).backward(g.tensor());
               }()),
      KB_ENTRY("autograd::grad", autograd::grad(g.tensors(), g.tensors(), g.tensors(),
                                                {.retain_graph = true, .allow_unused = g.flag()})),
      KB_ENTRY("NoGradGuard", [&] { const NoGradGuard guard(g.tensor()); }()),
      KB_ENTRY("checkpoint",
               nn::utils::checkpoint([](const std::vector<Tensor>& all) { return all.at(0) * 2; },
                                     g.tensors())),
      KB_ENTRY("to_vector", g.tensor().to_vector()),
      KB_ENTRY("shard_to_vector", g.tensor().shard_to_vector(g.below(3))),
      KB_ENTRY("item", g.tensor().item()),
      KB_ENTRY("at", g.tensor().at({g.dim(), g.dim()})),
      KB_ENTRY("to_string", to_string(g.tensor())),
      KB_ENTRY("view", g.tensor().view({g.size(), g.size()})),
      KB_ENTRY("reshape", g.tensor().reshape({g.size(), g.size()})),
      KB_ENTRY("view_as", g.tensor().view_as(g.tensor())),
      KB_ENTRY("flatten", g.tensor().flatten(g.dim(), g.dim())),
      KB_ENTRY("repeat", g.tensor().repeat({g.size(), g.size()})),
      KB_ENTRY("transpose", g.tensor().transpose(g.dim(), g.dim())),
      KB_ENTRY("permute", g.tensor().permute({g.dim(), g.dim()})),
      KB_ENTRY("t", g.tensor().t()),
      KB_ENTRY("mT", g.tensor().mT()),
      KB_ENTRY("expand", g.tensor().expand({g.size(), g.size()})),
      KB_ENTRY("expand_as", g.tensor().expand_as(g.tensor())),
      KB_ENTRY("narrow", g.tensor().narrow(g.dim(), g.size(), g.size())),
      KB_ENTRY("slice", g.tensor().slice(g.dim(), g.size(), g.size(), g.size())),
      KB_ENTRY("select", g.tensor().select(g.dim(), g.size())),
      KB_ENTRY("split", g.tensor().split(g.size(), g.dim())),
      KB_ENTRY("split by sizes", g.tensor().split({g.size(), g.size()}, g.dim())),
      KB_ENTRY("chunk", g.tensor().chunk(g.size(), g.dim())),
      KB_ENTRY("unfold", g.tensor().unfold(g.dim(), g.size(), g.size())),
      KB_ENTRY("unflatten", g.tensor().unflatten(g.dim(), {g.size(), g.size()})),
      KB_ENTRY("flip", g.tensor().flip({g.dim()})),
      KB_ENTRY("roll", g.tensor().roll(g.size(), g.dim())),
      KB_ENTRY("repeat_interleave", g.tensor().repeat_interleave(g.size(), g.dim())),
      KB_ENTRY("split_heads", split_heads(g.tensor(), g.size())),
      KB_ENTRY("is_contiguous", g.tensor().is_contiguous()),
      KB_ENTRY("is_alias_of", g.tensor().is_alias_of(g.tensor())),
      KB_ENTRY("to a tensor", g.tensor().to(g.tensor())),
      KB_ENTRY("to a device", g.tensor().to(Device(g.flag() ? "ahbm:1" : "ahbm:7"))),
      KB_ENTRY("type_as", g.tensor().type_as(g.tensor())),
      KB_ENTRY("cpu", g.tensor().cpu()),
      KB_ENTRY("redistribute", g.tensor().redistribute(g.flag() ? DPPolicy{} : g.tensor().dp())),
      KB_ENTRY("add_", g.tensor().add_(g.tensor(), g.number())),
      KB_ENTRY("mul_", g.tensor().mul_(g.tensor())),
      KB_ENTRY("div_ n", g.tensor().div_(g.number())),
      KB_ENTRY("+=", g.tensor() += g.tensor()),
      KB_ENTRY("exp_", g.tensor().exp_()),
      KB_ENTRY("lerp_", g.tensor().lerp_(g.tensor(), g.number())),
      KB_ENTRY("addcmul_", g.tensor().addcmul_(g.tensor(), g.tensor())),
      KB_ENTRY("clamp_", g.tensor().clamp_(g.number(), g.number())),
      KB_ENTRY("masked_fill_", g.tensor().masked_fill_(g.tensor(), g.number())),
      KB_ENTRY("scatter_", g.tensor().scatter_(g.dim(), g.tensor(), g.tensor())),
      KB_ENTRY("index_add_", g.tensor().index_add_(g.dim(), g.tensor(), g.tensor())),
      KB_ENTRY("fill_", g.tensor().fill_(g.number())),
      KB_ENTRY("zero_", g.tensor().zero_()),
      KB_ENTRY("uniform_", g.tensor().uniform_(g.number(), g.number())),
      KB_ENTRY("normal_", g.tensor().normal_(g.number(), g.number())),
      KB_ENTRY("zeros_like", g.torch.zeros_like(g.tensor())),
      KB_ENTRY("full_like", g.torch.full_like(g.tensor(), g.number())),
      KB_ENTRY("randn_like", g.torch.randn_like(g.tensor())),
      KB_ENTRY("zeros", g.torch.zeros({g.size(), g.size()})),
      KB_ENTRY("arange", g.torch.arange(g.size(), g.size(), g.number())),
      KB_ENTRY("linspace", g.torch.linspace(g.number(), g.number(), g.size())),
      KB_ENTRY("eye", g.torch.eye(g.size(), g.size())),
      KB_ENTRY("randint", g.torch.randint(g.size(), g.size(), {g.size()})),
      KB_ENTRY("randperm", g.torch.randperm(g.size())),
      KB_ENTRY("tensor", g.torch.tensor({1, 2, 3}, {g.size()}, {})),
  };
}

}  // namespace kernbench::test::wrong_objects
