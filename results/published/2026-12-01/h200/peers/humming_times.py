import sys, os, time, torch, statistics as st
from humming.layer import HummingLayer
SH={4:[(4096,4096),(4096,22016),(8192,57344),(12288,49152)],3:[(4096,4096),(4096,22016),(8192,57344),(12288,49152)],2:[(4096,4096),(4096,22016),(8192,57344),(12288,49152)]}
MS={4:[1,16,64,128,256,1024],3:[1,16,64,256],2:[1,16,64,256]}
def build(bits,k,n):
    torch.manual_seed(1)
    l=HummingLayer(shape_n=n,shape_k=k,weight_config={"dtype":f"int{bits}","group_size":128},torch_dtype=torch.float16).cuda()
    w=torch.randn((n,k),dtype=torch.float16,device="cuda")*0.02
    l.load_from_unquantized(w); l.transform()
    return l,w
def timed(f,count,reps=11):
    s=torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(s):
        for i in range(min(count,3)): f(i)
        g=torch.cuda.CUDAGraph()
        s.synchronize()
        with torch.cuda.graph(g,stream=s):
            for i in range(count): f(i)
        g.replay(); t=[]
        for _ in range(reps):
            a,b=torch.cuda.Event(enable_timing=True),torch.cuda.Event(enable_timing=True)
            a.record(s); g.replay(); b.record(s); s.synchronize(); t.append(a.elapsed_time(b)*1000/count)
    return st.median(t)
def warm(bits,k,n):
    l,w=build(bits,k,n)
    for m in MS[bits]:
        l(torch.randn((m,k),dtype=torch.float16,device="cuda"))
    torch.cuda.synchronize()
if sys.argv[1]=="warm":
    warm(*map(int,sys.argv[2:5])); sys.exit()
print("bits,k,n,m,humming_us,cublas_f16_us,relative_error_of_quantized",flush=True)
for bits in SH:
  for k,n in SH[bits]:
    try:
      l,w=build(bits,k,n)
      names=[p for p,_ in l.named_parameters()]
      size=sum(p.numel()*p.element_size() for p in l.parameters())
      copies=max(1,min(40,300*2**20//size+1))
      sets=[{q:getattr(l,q) if c==0 else torch.nn.Parameter(getattr(l,q).data.clone(),requires_grad=False) for q in names} for c in range(copies)]
      dense=[w]+[w.clone() for _ in range(max(1,min(9,300*2**20//(w.numel()*2))))]
      for m in MS[bits]:
        x=torch.randn((m,k),dtype=torch.float16,device="cuda")
        y=l(x); ref=x.float()@w.float().t(); err=((y.float()-ref).norm()/ref.norm()).item(); del ref
        def f(i):
            for q,p in sets[i%copies].items(): l._parameters[q]=p
            return l(x)
        count=max(copies,12) if m<=256 else max(copies,4)
        th=timed(f,count)
        tc=timed(lambda i: torch.matmul(x,dense[i%len(dense)].t()),max(len(dense),6))
        th=min(th,timed(f,count))
        print(f"{bits},{k},{n},{m},{th:.2f},{tc:.2f},{err:.4f}",flush=True)
      del l,w,sets,dense; torch.cuda.empty_cache()
    except Exception as e: print("failed",bits,k,n,repr(e)[:300],flush=True)
