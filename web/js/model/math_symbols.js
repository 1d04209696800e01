// The commands of LaTeX's mathematics that are one symbol each.

const table = (text) => Object.fromEntries(text.trim().split(/\s+/).map((pair) => [`\\${pair.slice(0, pair.indexOf("="))}`, pair.slice(pair.indexOf("=") + 1)]));

export const LETTERS = table(`
  alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ vartheta=ϑ iota=ι kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π varpi=ϖ rho=ρ varrho=ϱ
  sigma=σ varsigma=ς tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ Omega=Ω
  infty=∞ partial=∂ nabla=∇ hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ emptyset=∅ varnothing=∅ imath=ı jmath=ȷ %=% $=$ #=# &=& _=_ degree=° dots=… ldots=… cdots=⋯ vdots=⋮ ddots=⋱
`);

export const OPERATORS = table(`
  cdot=⋅ times=× div=÷ pm=± mp=∓ ast=∗ star=⋆ circ=∘ bullet=∙ oplus=⊕ otimes=⊗ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ equiv=≡ approx=≈ sim=∼ simeq=≃ cong=≅ propto=∝ ll=≪ gg=≫
  in=∈ notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ setminus=∖ forall=∀ exists=∃ nexists=∄ neg=¬ lnot=¬ land=∧ wedge=∧ lor=∨ vee=∨ to=→ rightarrow=→
  leftarrow=← Rightarrow=⇒ Leftarrow=⇐ leftrightarrow=↔ Leftrightarrow=⇔ iff=⇔ implies=⟹ mapsto=↦ longrightarrow=⟶ uparrow=↑ downarrow=↓ perp=⊥ parallel=∥ mid=∣ vert=| angle=∠
  triangle=△ therefore=∴ because=∵ langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ {={ }=} |=‖ colon=: lbrace={ rbrace=} bmod=mod prime=′ hookrightarrow=↪ models=⊨ vdash=⊢
`);

export const LARGE = table("sum=∑ prod=∏ coprod=∐ int=∫ iint=∬ iiint=∭ oint=∮ bigcup=⋃ bigcap=⋂ bigoplus=⨁ bigotimes=⨂ bigvee=⋁ bigwedge=⋀");

export const SPACES = { "\\,": "0.167em", "\\:": "0.222em", "\\;": "0.278em", "\\!": "-0.167em", "\\ ": "0.333em", "\\quad": "1em", "\\qquad": "2em", "\\nonumber": "0em", "\\notag": "0em" };

export const ACCENTS = table("hat=^ widehat=^ bar=¯ overline=¯ vec=→ dot=˙ ddot=¨ tilde=~ widetilde=~ overrightarrow=→ check=ˇ breve=˘");

/// The first capital, the first small letter and the first digit of an alphabet, and the letters that stand elsewhere.
export const VARIANTS = {
  "\\mathbf": [0x1d400, 0x1d41a, 0x1d7ce],
  "\\boldsymbol": [0x1d400, 0x1d41a, 0x1d7ce],
  "\\mathit": [0, 0, 0],
  "\\mathsf": [0x1d5a0, 0x1d5ba, 0x1d7e2],
  "\\mathtt": [0x1d670, 0x1d68a, 0x1d7f6],
  "\\mathbb": [0x1d538, 0x1d552, 0x1d7d8, { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" }],
  "\\mathcal": [0x1d49c, 0x1d4b6, 0, { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" }],
  "\\mathfrak": [0x1d504, 0x1d51e, 0, { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" }],
};

export const FUNCTIONS = "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh exp log ln lg lim limsup liminf max min sup inf det dim ker deg gcd arg Pr mod".split(" ");
